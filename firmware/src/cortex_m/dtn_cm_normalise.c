/*
 * Normalisation of groups of elements by their own mean and variance, or root of their mean square. Sums and squares
 * are exact; one root and one division per group give a factor of 31 bits, and each element takes two products.
 */
#include "../kernels/requant.h"
#include "cortex_m.h"

typedef dtn_cm_normalise_params_t params_t;

enum {
    /* Bits of the number of elements in a group, which times any difference of two int8 numbers fits 31 bits. */
    MOST_BITS = 22,
    /* A variance, scaled to this many bits, has a root of half as many. */
    ROOT_BITS = 31,
    ONE_BITS = 2 * ROOT_BITS - 1,
};

/* The mapping of a group's elements: (element * count - sum) * factor / 2^shift. */
typedef struct {
    int32_t count;
    int32_t sum;
    int32_t factor;
    int32_t shift;
} group_t;

static uint64_t epsilon_of(const params_t *p)
{
    return (uint64_t)(uint32_t)p->epsilon_high << 32 | (uint32_t)p->epsilon_low;
}

/* The elements of a group; 0 for dimensions that are none, or too many. */
static uint32_t count_of(const params_t *p)
{
    const int32_t most = (int32_t)DTN_MAX_DIMENSION;
    if (p->channels < 1 || p->channels > most || p->spatial < 1 || p->spatial > most) {
        return 0;
    }
    uint64_t count = (uint64_t)p->channels * (uint64_t)p->spatial;
    return count <= UINT32_C(1) << MOST_BITS ? (uint32_t)count : 0;
}

/* True if the dimensions are those of the value, and the strides lead to no element outside of it. */
static bool is_inside(const params_t *p, const dtn_tensor_t *value)
{
    const int32_t sizes[] = {p->batches, p->groups, p->channels, p->spatial};
    const int32_t strides[] = {p->batch_stride, p->group_stride, p->channel_stride, p->spatial_stride};
    uint64_t last = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (strides[i] < 0) {
            return false;
        }
        last += (uint64_t)(uint32_t)(sizes[i] - 1) * (uint32_t)strides[i];
    }
    return last < value->bytes && value->bytes <= INT32_MAX &&
           dtn_cm_has_size(value, DTN_CM_LIST(p->batches, p->groups, p->channels, p->spatial));
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t) || values[0].type != DTN_TYPE_S8 || values[3].type != DTN_TYPE_S8 ||
        !dtn_cm_are(&values[1], 2, DTN_TYPE_S32)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    uint32_t count = count_of(p);
    if (count == 0 || p->batches < 1 || p->groups < 1 || !is_inside(p, &values[0]) ||
        values[3].bytes != values[0].bytes || (p->factor_step != 0 && p->factor_step != 1)) {
        return false;
    }
    /* A variance, times count^2, is below count^2 * 2^16: with the epsilon it must stay below 2^62. */
    const uint64_t limit = UINT64_C(1) << 62;
    if (p->fraction < 0 || p->fraction > 46 || p->fraction % 2 != 0 || epsilon_of(p) >= limit ||
        (limit - epsilon_of(p)) >> (16 + p->fraction) < (uint64_t)count * count) {
        return false;
    }
    /* No normalised value is above the root of the count. */
    if (p->value_bits < 0 || p->value_bits > 30 || UINT64_C(1) << (60 - 2 * p->value_bits) < count) {
        return false;
    }
    uint64_t factors = p->factor_step == 0 ? 1 : (uint64_t)(uint32_t)p->groups * (uint32_t)p->channels;
    return values[1].bytes == factors * sizeof(int32_t) && values[2].bytes == values[1].bytes &&
           (p->centred == 0 || p->centred == 1) && dtn_cm_is_s8(p->in_zp) && dtn_cm_is_s8(p->out_zp) &&
           p->offset_shift >= 0 && p->offset_shift <= 30 && p->out_shift >= 1 && p->out_shift <= 62;
}

/* The whole part of the root of a number of 2^60 or more, below 2^62. */
static uint32_t root_of(uint64_t number)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 60; bit != 0; bit >>= 2) {
        bool fits = number >= root + bit;
        number -= fits ? root + bit : 0;
        root = (root >> 1) + (fits ? bit : 0);
    }
    return (uint32_t)root;
}

/* Return the mapping for elements with this sum, and sum of squares, of their differences to `zero_point`. */
static group_t group_of(const params_t *p, int32_t sum, uint64_t squares, int32_t zero_point)
{
    uint32_t count = count_of(p);
    int64_t centre = p->centred == 1 ? sum : 0;
    uint64_t variance = squares * count - (uint64_t)(centre * centre);
    group_t group = {(int32_t)count, (int32_t)centre + zero_point * (int32_t)count, 0, 1};
    if (variance == 0) {
        return group; /* all elements are 0 then */
    }
    uint64_t number = (variance << p->fraction) + epsilon_of(p);
    int32_t doubled = 0;
    for (; number < UINT64_C(1) << (ONE_BITS - 1); number <<= 2) {
        doubled++;
    }
    group.factor = (int32_t)(((UINT64_C(1) << ONE_BITS) - 1U) / root_of(number));
    group.shift = ONE_BITS - p->fraction / 2 - doubled - p->value_bits;
    return group;
}

static group_t group_statistics(const params_t *p, const int8_t *in)
{
    /* The inner loop is the longer one: 2^16 squares of 9 bits fit 32. */
    bool is_flat = p->spatial == 1;
    int32_t rows = is_flat ? 1 : p->channels;
    int32_t length = is_flat ? p->channels : p->spatial;
    int32_t step = is_flat ? p->channel_stride : p->spatial_stride;
    /* A mean moves with its elements, so that any number may be taken from them; a mean square wants the zero point. */
    int32_t zero_point = p->in_zp;
    int32_t sum = 0;
    uint64_t squares = 0;
    for (int32_t k = 0; k < rows; k++) {
        const int8_t *row = in + k * p->channel_stride;
        uint32_t square = 0;
        for (int32_t i = 0; i < length; i++) {
            int32_t x = row[i * step] - zero_point;
            sum += x;
            square += (uint32_t)(x * x);
        }
        squares += square;
    }
    return group_of(p, sum, squares, zero_point);
}

static int8_t normalised(const params_t *p, const group_t *group, int32_t x, int32_t factor, int64_t offset)
{
    int64_t centred = (int64_t)(x * group->count - group->sum) * group->factor;
    int64_t value = dtn_rne_shift(centred, group->shift) * factor + offset;
    return dtn_clamp_s8(p->out_zp + dtn_rne_shift(value, p->out_shift), INT8_MIN, INT8_MAX);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t *factors = (const int32_t *)call->values[DTN_CM_NORMALISE_FACTORS].data;
    const int32_t *offsets = (const int32_t *)call->values[DTN_CM_NORMALISE_OFFSETS].data;
    for (int32_t i = 0; i < p->batches * p->groups; i++) {
        int32_t group_index = i % p->groups;
        int32_t start = i / p->groups * p->batch_stride + group_index * p->group_stride;
        const int8_t *in = (const int8_t *)call->values[DTN_CM_NORMALISE_INPUT].data + start;
        int8_t *out = (int8_t *)call->values[DTN_CM_NORMALISE_OUTPUT].data + start;
        group_t group = group_statistics(p, in);
        for (int32_t k = 0; k < p->channels; k++) {
            int32_t at = p->factor_step * (group_index * p->channels + k);
            int64_t offset = (int64_t)offsets[at] * (INT64_C(1) << p->offset_shift);
            for (int32_t s = 0; s < p->spatial; s++) {
                int32_t place = k * p->channel_stride + s * p->spatial_stride;
                out[place] = normalised(p, &group, in[place], factors[at], offset);
            }
        }
    }
}

int32_t dtn_cm_normalise(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
