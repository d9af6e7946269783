#include "../inner_loops_s16.h"

void dtn_cm_copy_runs_s16(const int16_t *from, size_t from_step, int16_t *to, size_t to_step, size_t count, size_t runs)
{
    for (; runs > 0; runs--) {
        const int16_t *source = from;
        int16_t *target = to;
        __asm__ volatile("wlstp.16 lr, %[count], 2f\n"
                         "1:\n"
                         "vldrh.16 q0, [%[source]], #16\n"
                         "vstrh.16 q0, [%[target]], #16\n"
                         "letp lr, 1b\n"
                         "2:\n"
                         : [source] "+&r"(source), [target] "+&r"(target)
                         : [count] "r"(count)
                         : "q0", "lr", "memory");
        from += from_step;
        to += to_step;
    }
}
