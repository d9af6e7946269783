#include "signal_common.h"

typedef int32_t part_t;
typedef int64_t wide_t;

#define PART_TYPE DTN_TYPE_S32
#define SHARE(n) (INT32_MAX / (n))

static part_t low(wide_t x)
{
    return (int32_t)(uint32_t)(uint64_t)x;
}

static wide_t sum(wide_t a, wide_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static part_t rounded(wide_t product)
{
    return low((product + (1 << 30)) >> 31);
}

static part_t half(wide_t x)
{
    return low(x) >> 1;
}

#include "signal_fft.h"

int32_t dtn_tfl_signal_fft_s32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return run(call, phase);
}
