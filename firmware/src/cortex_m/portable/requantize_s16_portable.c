#include "../table_loops_s16.h"

void dtn_cm_requantize_to_s16(const dtn_cm_requantize_t *p, const int8_t *in, int16_t *out)
{
    dtn_cm_requantized_s16(p, in, out, 0);
}

void dtn_cm_requantize_to_s8(const dtn_cm_requantize_t *p, const int16_t *in, int8_t *out)
{
    dtn_cm_requantized_s8(p, in, out, 0);
}
