#include <string.h>

#include "../inner_loops_s16.h"

void dtn_cm_copy_runs_s16(const int16_t *from, size_t from_step, int16_t *to, size_t to_step, size_t count, size_t runs)
{
    for (; runs > 0; runs--) {
        size_t i = 0;
        for (; i + 2 <= count; i += 2) {
            /* Two elements at a time. */
            uint32_t two;
            memcpy(&two, from + i, sizeof two);
            memcpy(to + i, &two, sizeof two);
        }
        if (i != count) {
            to[i] = from[i];
        }
        from += from_step;
        to += to_step;
    }
}
