#include "../check/check.h"
#include "../requant.h"

/* One output, which has at most 8 bits: the quotient is computed bit by bit. That is faster than a 64-bit division on
 * small cores, and shares no code with the reference. The denominator is at most 2^62. */
static int8_t share(const dtn_softmax_s8_params_t *p, uint32_t weight, uint64_t sum)
{
    uint64_t numerator = (uint64_t)weight * (uint64_t)p->mult;
    uint64_t denominator = sum << p->shift;
    uint64_t rest = numerator >> 8;
    if (rest >= denominator) {
        return INT8_MAX; /* a quotient of 256 or more, and a zero point of -128 or more */
    }
    uint32_t quotient = 0;
    for (uint32_t bit = 8; bit-- > 0;) {
        rest = rest << 1 | (numerator >> bit & 1U);
        quotient <<= 1;
        if (rest >= denominator) {
            rest -= denominator;
            quotient |= 1U;
        }
    }
    uint64_t twice = rest << 1;
    if (twice > denominator || (twice == denominator && (quotient & 1U) != 0)) {
        quotient++;
    }
    return dtn_clamp_s8(p->out_zp + (int64_t)quotient, INT8_MIN, INT8_MAX);
}

/* A long row has at most 256 different outputs: one for each distance from its largest element. */
static void long_row(const dtn_softmax_s8_params_t *p, const int8_t *in, const uint32_t *table, int32_t largest,
                     uint64_t sum, int8_t *out)
{
    int8_t shares[256];
    for (int32_t k = 0; k < 256; k++) {
        shares[k] = share(p, table[k], sum);
    }
    for (int32_t i = 0; i < p->depth; i++) {
        out[i] = shares[largest - in[i]];
    }
}

int32_t dtn_k_softmax_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_softmax_s8(call);
    }
    const dtn_softmax_s8_params_t *p = (const dtn_softmax_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_SOFTMAX_S8_INPUT].data;
    const uint32_t *table = (const uint32_t *)(const void *)call->operands[DTN_SOFTMAX_S8_TABLE].data;
    int8_t *out = (int8_t *)call->operands[DTN_SOFTMAX_S8_OUTPUT].data;

    for (int32_t r = 0; r < p->rows; r++) {
        int32_t largest = INT8_MIN;
        uint64_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            largest = in[i] > largest ? in[i] : largest;
        }
        for (int32_t i = 0; i < p->depth; i++) {
            sum += table[largest - in[i]];
        }
        if (p->depth > 256) {
            long_row(p, in, table, largest, sum, out);
        } else {
            for (int32_t i = 0; i < p->depth; i++) {
                out[i] = share(p, table[largest - in[i]], sum);
            }
        }
        in += p->depth;
        out += p->depth;
    }
    return DTN_OK;
}
