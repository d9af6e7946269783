#include "../check/check.h"
#include "../fast/strided.h"
#include "../requant.h"
#include "../single_rounding/add_s8_single_rounding.h"

enum { RANK = sizeof((dtn_add_s8_params_t *)0)->dims / sizeof(int32_t), CHUNK = 64 };

/* The lower part of a factor has this many bits, and no sum of upper parts has more than that. */
enum { LOWER = 16, MOST_SHIFT = 30 };

static int32_t upper_of(int32_t factor)
{
    return factor >> LOWER; /* all compilers that we know shift the sign in */
}

static int32_t lower_of(int32_t factor)
{
    return factor & 0xFFFF;
}

static dtn_sr_sum_t sum_of(const dtn_add_s8_params_t *p)
{
    int32_t shift = p->shift - LOWER;
    return (dtn_sr_sum_t){
        .a_upper = upper_of(p->a_mult),
        .a_lower = lower_of(p->a_mult),
        .b_upper = upper_of(p->b_mult),
        .b_lower = lower_of(p->b_mult),
        .start_upper = -p->a_zp * upper_of(p->a_mult) - p->b_zp * upper_of(p->b_mult),
        .start_lower = -p->a_zp * lower_of(p->a_mult) - p->b_zp * lower_of(p->b_mult),
        /* All sums are 0 from there on. */
        .shift = shift > MOST_SHIFT ? MOST_SHIFT : shift,
        .zero_point = p->out_zp,
        .lo = p->act_min,
        .hi = p->act_max,
    };
}

/* Sums that are not divided by more than the lower parts. */
static void add_general(const dtn_add_s8_params_t *p, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)(a[i] - p->a_zp) * p->a_mult + (int64_t)(b[i] - p->b_zp) * p->b_mult;
        out[i] = dtn_clamp_s8(p->out_zp + dtn_rne_shift(value, p->shift), p->act_min, p->act_max);
    }
}

static void add(const dtn_add_s8_params_t *p, const dtn_sr_sum_t *sum, const int8_t *a, const int8_t *b, int8_t *out,
                size_t count)
{
    if (sum->shift < 1) {
        add_general(p, a, b, out, count);
    } else {
        dtn_sr_add(sum, a, b, out, count);
    }
}

/* Elements `step` apart, or where they are if that is 1. */
static const int8_t *gather(const int8_t *from, size_t step, size_t count, int8_t *to)
{
    if (step == 1) {
        return from;
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i * step];
    }
    return to;
}

/* A run of the iterator in which some elements repeat, or are apart. */
static void add_apart(const dtn_add_s8_params_t *p, const dtn_sr_sum_t *sum, const dtn_iterator_t *iterator,
                      const int8_t *a, const int8_t *b, int8_t *out)
{
    int8_t left[CHUNK];
    int8_t right[CHUNK];
    for (size_t i = 0, count; i < iterator->count; i += count) {
        count = iterator->count - i < CHUNK ? iterator->count - i : CHUNK;
        const int8_t *x = gather(a + i * iterator->step[0], iterator->step[0], count, left);
        const int8_t *y = gather(b + i * iterator->step[1], iterator->step[1], count, right);
        add(p, sum, x, y, out + i, count);
    }
}

int32_t dtn_k_add_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_add_s8(call);
    }
    const dtn_add_s8_params_t *p = (const dtn_add_s8_params_t *)(const void *)call->params;
    const dtn_sr_sum_t sum = sum_of(p);
    int8_t *out = (int8_t *)call->operands[DTN_ADD_S8_OUTPUT].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_ADD_S8_A].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_ADD_S8_B].data + iterator.at[1];
        if (iterator.step[0] == 1 && iterator.step[1] == 1) {
            add(p, &sum, a, b, out, iterator.count);
        } else {
            add_apart(p, &sum, &iterator, a, b, out);
        }
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
