#include "signal_common.h"

typedef float part_t;
typedef float wide_t;

#define PART_TYPE DTN_TYPE_F32
#define SHARE(n) 1.0F

static part_t low(wide_t x)
{
    return x;
}

static wide_t sum(wide_t a, wide_t b)
{
    return a + b;
}

static part_t rounded(wide_t product)
{
    return product;
}

static part_t half(wide_t x)
{
    return x * 0.5F;
}

#include "signal_fft.h"

int32_t dtn_tfl_signal_fft_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return run(call, phase);
}
