#include <string.h>

#include "../element_loops.h"

void dtn_cm_strided_copy(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step, size_t count)
{
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, count);
        return;
    }
    for (; count >= 4; count -= 4, from += 4 * from_step, to += 4 * to_step) {
        uint8_t a = from[0];
        uint8_t b = from[from_step];
        uint8_t c = from[2 * from_step];
        uint8_t d = from[3 * from_step];
        to[0] = a;
        to[to_step] = b;
        to[2 * to_step] = c;
        to[3 * to_step] = d;
    }
    for (size_t i = 0; i < count; i++) {
        to[i * to_step] = from[i * from_step];
    }
}
