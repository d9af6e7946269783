#include "../element_loops.h"

void dtn_cm_look_up(const int8_t *table, const int8_t *in, int8_t *out, size_t count)
{
    const int8_t *middle = table - INT8_MIN;
    for (; count >= 4; count -= 4, in += 4, out += 4) {
        int8_t a = middle[in[0]];
        int8_t b = middle[in[1]];
        int8_t c = middle[in[2]];
        int8_t d = middle[in[3]];
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = middle[in[i]];
    }
}
