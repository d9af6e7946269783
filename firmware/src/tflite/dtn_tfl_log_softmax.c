#include "fixed_point.h"
#include "integer_common.h"

typedef dtn_tfl_log_softmax_params_t params_t;

/* Whole bits of differences and logarithms, of sums, and of numbers that logarithms are made of. */
enum { WHOLE_BITS = 5, SUM_BITS = 12, LOGARITHM_BITS = WHOLE_BITS + 1, OUTPUT_BITS = 4 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || call->values[0].type != DTN_TYPE_S8 ||
        call->values[1].type != DTN_TYPE_S32 || call->values[2].type != DTN_TYPE_S8) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    /* A sum of at most 4095 elements below 1 has 12 whole bits. */
    return p->depth >= 1 && p->depth < 1 << SUM_BITS && p->entries >= 1 && p->entries <= 256 &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && p->shift >= 0 &&
           dtn_tfl_is_factor(p->reverse_multiplier, p->reverse_shift) && p->diff_min > INT32_MIN && p->diff_min <= 0 &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(p->rows, p->depth)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(4, p->entries)) &&
           dtn_cm_has_size(&call->values[2], DTN_CM_LIST(p->rows, p->depth));
}

/*
 * ln of a number of at least 1 with SUM_BITS whole bits, in steps of 2^-26. The number is r * 2^n with r about the
 * fourth root of 1/2, once taken as it is and once over the root of 1/2; a rational function gives ln(r).
 */
static int32_t logarithm(int32_t number)
{
    const int32_t ln2 = 1488522236, root_half = 1518500250, fourth_root_half = 1805811301;
    const int32_t quarter = INT32_C(1) << (31 - LOGARITHM_BITS - 2);
    int32_t zeros = dtn_tfl_leading_zeros((uint32_t)number);
    int32_t r_a = dtn_tfl_up(dtn_tfl_times(dtn_tfl_up(number, zeros - 1), root_half), 1);
    int32_t power_a = (SUM_BITS - zeros) * (1 << (31 - LOGARITHM_BITS)) + quarter;
    int32_t headroom = dtn_tfl_leading_zeros((uint32_t)dtn_tfl_times(number, root_half)) - 1;
    int32_t r_b = dtn_tfl_up(number, headroom);
    int32_t power_b = (SUM_BITS - headroom) * (1 << (31 - LOGARITHM_BITS)) - quarter;
    int32_t r = r_a < r_b ? r_a : r_b, power = power_a > power_b ? power_a : power_b;

    int64_t both = (int64_t)r + fourth_root_half;
    int32_t p = (int32_t)((both + 1) / 2);
    int32_t q = 2 * (r - fourth_root_half);
    int32_t square = dtn_tfl_times(q, q);
    int32_t numerator = dtn_tfl_times(q, r) + dtn_tfl_times(dtn_tfl_times(q, square), 117049297);
    int32_t inner = 1057819769 + q + dtn_tfl_times(127690142, square);
    int32_t denominator = dtn_tfl_times(p, inner) + dtn_tfl_times(638450708, q);
    int32_t inverse = dtn_tfl_one_over_one_plus(denominator);
    int32_t scaled = dtn_cm_divide_by_power(numerator, LOGARITHM_BITS);
    return dtn_tfl_up(dtn_tfl_times(power, ln2) + dtn_tfl_times(scaled, inverse), LOGARITHM_BITS - WHOLE_BITS);
}

static void row_of(const params_t *p, const int8_t *in, const int32_t *table, int8_t *out)
{
    int32_t largest = INT8_MIN, sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        largest = in[i] > largest ? in[i] : largest;
    }
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t difference = largest - in[i];
        sum += difference < p->entries ? table[difference] : 0;
    }
    int32_t log_of_sum = logarithm(sum);
    int32_t least = dtn_cm_requantize(dtn_cm_plus(log_of_sum, INT32_MIN), p->reverse_multiplier, p->reverse_shift);
    least = least > p->diff_min - 1 ? least : p->diff_min - 1;
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t difference = in[i] - largest;
        if (difference <= least) {
            out[i] = INT8_MIN;
            continue;
        }
        int32_t scaled = dtn_cm_requantize(difference, p->multiplier, p->shift);
        int32_t value = dtn_cm_divide_by_power(scaled - log_of_sum, 31 - WHOLE_BITS - OUTPUT_BITS) + INT8_MAX;
        out[i] = (int8_t)dtn_cm_clamp(value, INT8_MIN, INT8_MAX);
    }
}

int32_t dtn_tfl_log_softmax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[0].data;
    const int32_t *table = (const int32_t *)call->values[1].data;
    int8_t *out = (int8_t *)call->values[2].data;
    if (!dtn_tfl_are_powers(table, p->entries, 1 << (31 - SUM_BITS))) {
        return DTN_REASON_OPERATOR;
    }
    for (int32_t row = 0; row < p->rows; row++, in += p->depth, out += p->depth) {
        row_of(p, in, table, out);
    }
    return DTN_OK;
}
