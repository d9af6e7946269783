#include "../inner_loops.h"

/* The operator's own loops compute. */
bool dtn_cm_multiply_interleaved(const dtn_cm_product_t *product)
{
    (void)product;
    return false;
}
