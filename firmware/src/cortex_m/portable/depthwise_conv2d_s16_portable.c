#include "../int16.h"

void dtn_cm_add_tap_s16(const int16_t *inputs, const int8_t *weights, size_t step, size_t count, int32_t *sums)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] += inputs[i] * weights[i * step];
    }
}
