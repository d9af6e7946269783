#include "broadcast_rows.h"
#include "element_loops.h"

/* Bits that the operands are shifted to the left by, so that the factors do not lose what counts. */
enum { LEFT_SHIFT = 20 };

typedef dtn_cm_quantized_add_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_is_repeated(call->values) && dtn_cm_is_zero_point(p->a_zp) && dtn_cm_is_zero_point(p->b_zp) &&
           dtn_cm_is_zero_point(p->out_zp) && dtn_cm_is_shift(p->a_shift) && dtn_cm_is_shift(p->b_shift) &&
           dtn_cm_is_shift(p->out_shift) && dtn_cm_is_range(p->act_min, p->act_max);
}

static int32_t scaled(int32_t value, int32_t zp, int32_t multiplier, int32_t shift)
{
    /* Unsigned, where an overflow is defined: zero points may be far. */
    return dtn_cm_requantize((int32_t)((uint32_t)(value - zp) << LEFT_SHIFT), multiplier, shift);
}

static int8_t sum(const params_t *p, int32_t a, int32_t b)
{
    int32_t exact =
        dtn_cm_plus(scaled(a, p->a_zp, p->a_multiplier, p->a_shift), scaled(b, p->b_zp, p->b_multiplier, p->b_shift));
    int32_t result = dtn_cm_requantize(exact, p->out_multiplier, p->out_shift);
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(result, p->out_zp), p->act_min, p->act_max);
}

/* An operand: zero point and factor. */
typedef struct {
    int32_t zp;
    int32_t multiplier;
    int32_t shift;
} operand_t;

static const int32_t half = 1 << 30;

/* The sum in the form of `dtn_cm_add`; false when it has none. */
static bool is_usual(const params_t *p, operand_t halved, operand_t other, dtn_cm_sum_t *sum)
{
    /* Where both are halved the shift, which must be at least 1, takes back one more to the left: that is exact. */
    bool both = (other.multiplier == half || other.multiplier == -half) && other.shift == 0;
    if (halved.multiplier != half || halved.shift != 0 || !dtn_cm_is_s8(halved.zp) || !dtn_cm_is_s8(other.zp) ||
        !(both || dtn_cm_is_right(other.shift)) || !dtn_cm_is_right(p->out_shift)) {
        return false;
    }
    *sum = (dtn_cm_sum_t){
        .halved_zp = halved.zp,
        .other_zp = other.zp,
        .other_left = both ? LEFT_SHIFT + 1 : LEFT_SHIFT,
        .other = {other.multiplier, both ? 1 : -other.shift},
        .factor = {p->out_multiplier, -p->out_shift},
        .limits = {p->out_zp, p->act_min, p->act_max},
    };
    return true;
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const operand_t a = {p->a_zp, p->a_multiplier, p->a_shift};
    const operand_t b = {p->b_zp, p->b_multiplier, p->b_shift};
    dtn_cm_sum_t usual;
    bool a_halved = is_usual(p, a, b, &usual);
    bool b_halved = !a_halved && is_usual(p, b, a, &usual);
    dtn_cm_rows_t rows;
    dtn_cm_rows_start(&rows, call->values);
    for (uint32_t count; (count = dtn_cm_row(&rows)) != 0; dtn_cm_rows_next(&rows)) {
        if (a_halved) {
            dtn_cm_add(&usual, rows.a, rows.b, rows.out, count);
        } else if (b_halved) {
            dtn_cm_add(&usual, rows.b, rows.a, rows.out, count);
        } else {
            for (uint32_t i = 0; i < count; i++) {
                rows.out[i] = sum(p, rows.a[i], rows.b[i]);
            }
        }
    }
}

int32_t dtn_cm_quantized_add(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
