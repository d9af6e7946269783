#include "../element_loops.h"

void dtn_cm_extremum_elements(int8_t flip, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (a[i] ^ flip) > (b[i] ^ flip) ? a[i] : b[i];
    }
}
