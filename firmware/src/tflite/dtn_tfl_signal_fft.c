#include "signal_common.h"

typedef int16_t part_t;
typedef int32_t wide_t;

#define PART_TYPE DTN_TYPE_S16
#define SHARE(n) (INT16_MAX / (n))

static part_t low(wide_t x)
{
    return (int16_t)x;
}

static wide_t sum(wide_t a, wide_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static part_t rounded(wide_t product)
{
    return low((product + (1 << 14)) >> 15);
}

static part_t half(wide_t x)
{
    return low(x >> 1);
}

#include "signal_fft.h"

int32_t dtn_tfl_signal_fft(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return run(call, phase);
}
