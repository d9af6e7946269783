#include "../inner_loops_s16.h"
#include "vectors_mve.h"

void dtn_cm_copy_runs_s16(const int16_t *from, size_t from_step, int16_t *to, size_t to_step, size_t count, size_t runs)
{
    for (; runs > 0; runs--) {
        dtn_cm_copy_bytes((int8_t *)to, (const int8_t *)from, sizeof *from * count);
        from += from_step;
        to += to_step;
    }
}
