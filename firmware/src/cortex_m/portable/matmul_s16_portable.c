#include "../matmul_rows_s16.h"

void dtn_cm_multiply_s16(const dtn_cm_product_s16_t *product)
{
    dtn_cm_multiply_rows_s16(product);
}
