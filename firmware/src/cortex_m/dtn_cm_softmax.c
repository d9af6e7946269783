/*
 * Softmax, correctly rounded except for results within 2^-17 of a tie. exp(-d * scale) = 2^-u with u = d * scale *
 * log2(e) in 40 fractional bits. The integer part of u is a shift; a polynomial gives the rest in 31 bits.
 */
#include "cortex_m.h"
#include "element_loops.h"

typedef dtn_cm_softmax_params_t params_t;

enum {
    FRACTION = 40,
    /* 2^31 / 2^26: ExecuTorch's number for a scale of 32, the largest. */
    MOST_SHIFT = 31,
    DIFFERENCES = 256,
};

/* 2^(30 - u) for each difference; 0 until it is first used. */
typedef struct {
    uint64_t factor;
    uint32_t known[DIFFERENCES];
} powers_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t most = (int32_t)DTN_MAX_DIMENSION;
    if (p->outer < 1 || p->outer > most || p->depth < 1 || p->depth > most || p->inner < 1 || p->inner > most) {
        return false;
    }
    uint64_t size = (uint64_t)p->outer * (uint64_t)p->depth;
    return call->values[0].bytes <= INT32_MAX && size <= INT32_MAX &&
           size * (uint64_t)p->inner == call->values[0].bytes && call->values[1].bytes == call->values[0].bytes &&
           p->in_multiplier >= 0 && p->in_shift >= DTN_CM_MIN_SHIFT && p->in_shift <= MOST_SHIFT;
}

/* scale * log2(e), with FRACTION bits behind the point: below 2^46. */
static uint64_t factor_of(const params_t *p)
{
    const uint32_t log2_of_e = 1549082005; /* 2^30 * log2(e) */
    uint64_t product = (uint64_t)(uint32_t)p->in_multiplier * log2_of_e;
    /* The scale is in_multiplier * 2^(in_shift - 57). */
    int32_t right = 57 + 30 - FRACTION - p->in_shift;
    return right > 63 ? 0 : product >> right;
}

/* 2^(30 - u), u = difference * factor. */
static uint32_t exponential(int32_t difference, uint64_t factor)
{
    /* 2^-f = 1 - c[0] f + c[1] f^2 - .. for 0 <= f < 1, in steps of 2^-31. */
    static const uint32_t c[] = {1488522236, 515882469, 119193747, 20652244, 2856024, 319744, 24275};
    uint64_t u = (uint64_t)(uint32_t)difference * factor;
    uint32_t whole = (uint32_t)(u >> FRACTION);
    if (whole > 30) {
        return 0;
    }
    uint32_t f = (uint32_t)(u >> (FRACTION - 31)) & 0x7FFFFFFFU;
    uint32_t sum = c[6];
    for (int32_t i = 5; i >= 0; i--) {
        sum = c[i] - (uint32_t)((uint64_t)f * sum >> 31);
    }
    uint32_t power = (UINT32_C(1) << 31) - (uint32_t)((uint64_t)f * sum >> 31);
    return ((power >> whole) + 1U) >> 1;
}

static inline uint32_t power_of(powers_t *powers, int32_t difference)
{
    if (powers->known[difference] == 0) {
        powers->known[difference] = exponential(difference, powers->factor);
    }
    return powers->known[difference];
}

static void softmax(const params_t *p, const int8_t *in, int8_t *out, powers_t *powers)
{
    int32_t largest = INT8_MIN;
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t x = in[i * p->inner];
        largest = x > largest ? x : largest;
    }
    uint64_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += power_of(powers, largest - in[i * p->inner]);
    }
    /* At most 2^32, of the largest element alone, which is 2^30: with one less it has the same share. */
    uint64_t reciprocal = (UINT64_C(1) << 62) / sum;
    const dtn_cm_row_t row = {largest, powers->known, reciprocal > UINT32_MAX ? UINT32_MAX : (uint32_t)reciprocal,
                              (size_t)p->inner};
    dtn_cm_softmax_outputs(&row, in, out, (size_t)p->depth);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[0].data;
    int8_t *out = (int8_t *)call->values[1].data;
    powers_t powers = {.factor = factor_of(p)};
    for (int32_t i = 0; i < p->outer; i++) {
        for (int32_t j = 0; j < p->inner; j++) {
            softmax(p, in + j, out + j, &powers);
        }
        in += p->depth * p->inner;
        out += p->depth * p->inner;
    }
}

int32_t dtn_cm_softmax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
