/*
 * Random calls of the other Cortex-M operators, most of them damaged. Calls that a check accepts must stay within their
 * values, each a separate heap block for the sanitizers.
 */
#include <stdlib.h>
#include <string.h>

#include "deuteron/cortex_m.h"
#include "test.h"

enum { MAX_WORDS = 24, MAX_DIM = 5, BROADCAST_RANK = 5, MOST_BYTES = 1 << 20 };

typedef struct {
    uint32_t words[MAX_WORDS];
    uint32_t count;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t bytes[4]; /* inputs, then outputs, the last of which is the result */
    uint32_t type;
} plan_t;

static uint64_t state;

static int32_t between(int32_t lo, int32_t hi)
{
    return test_between(&state, lo, hi);
}

/* Copies a record to the words of a plan. */
static void set_params(plan_t *plan, const void *record, size_t size)
{
    memcpy(plan->words, record, size);
    plan->count = (uint32_t)(size / sizeof(uint32_t));
}

static void plan_two(plan_t *plan)
{
    uint32_t small = (uint32_t)between(1, 9);
    uint32_t large = small * (uint32_t)between(1, 5);
    bool first = between(0, 1) == 0;
    plan->inputs = 2;
    plan->bytes[0] = first ? large : small;
    plan->bytes[1] = first ? small : large;
    plan->bytes[2] = large;
}

static void plan_add(plan_t *plan)
{
    dtn_cm_quantized_add_params_t p = {
        .a_zp = between(-1920, 1919),
        .a_multiplier = between(INT32_MIN, INT32_MAX),
        .a_shift = between(-62, 30),
        .b_zp = between(-1920, 1919),
        .b_multiplier = between(INT32_MIN, INT32_MAX),
        .b_shift = between(-62, 30),
        .out_zp = between(-1920, 1919),
        .out_multiplier = between(INT32_MIN, INT32_MAX),
        .out_shift = between(-62, 30),
        .act_min = between(-128, 0),
        .act_max = between(0, 127),
    };
    plan_two(plan);
    set_params(plan, &p, sizeof p);
}

static void plan_mul(plan_t *plan)
{
    dtn_cm_quantized_mul_params_t p = {
        .a_zp = between(-1920, 1919),
        .b_zp = between(-1920, 1919),
        .out_zp = between(-1920, 1919),
        .out_multiplier = between(INT32_MIN, INT32_MAX),
        .out_shift = between(-62, 30),
    };
    plan_two(plan);
    set_params(plan, &p, sizeof p);
}

static void plan_div(plan_t *plan)
{
    dtn_cm_quantized_div_params_t p = {.a_zp = between(-32768, 32767),
                                       .b_zp = between(-32768, 32767),
                                       .out_zp = between(-32768, 32767),
                                       /* Any float32 that is not negative, NaN and infinity among them. */
                                       .scale = between(0, INT32_MAX)};
    plan->type = between(0, 1) == 0 ? DTN_TYPE_S8 : DTN_TYPE_S16;
    plan->inputs = 2;
    plan->bytes[0] = plan->bytes[1] = plan->bytes[2] = 2U * (uint32_t)between(1, 20);
    set_params(plan, &p, sizeof p);
}

static void plan_softmax(plan_t *plan)
{
    dtn_cm_softmax_params_t p = {between(1, MAX_DIM), between(1, 30), between(1, MAX_DIM), between(0, INT32_MAX),
                                 between(-62, 31)};
    plan->inputs = 1;
    plan->bytes[0] = plan->bytes[1] = (uint32_t)(p.outer * p.depth * p.inner);
    set_params(plan, &p, sizeof p);
}

/* A number of an axis, now and then the largest of all. */
static int32_t length(int32_t lo, int32_t hi)
{
    return between(0, 15) == 0 ? (int32_t)DTN_MAX_DIMENSION : between(lo, hi);
}

static void plan_pad(plan_t *plan)
{
    dtn_cm_pad_params_t p = {.value = between(-128, 127)};
    uint64_t out = 1;
    plan->inputs = 1;
    plan->bytes[0] = 1;
    for (uint32_t i = 0; i < 4; i++) {
        p.dims[i] = between(1, MAX_DIM);
        p.before[i] = length(0, 2);
        p.after[i] = length(0, 2);
        plan->bytes[0] *= (uint32_t)p.dims[i];
        out *= (uint32_t)(p.dims[i] + p.before[i] + p.after[i]);
        out = out > MOST_BYTES ? 0 : out; /* the check has to see what no value can hold */
    }
    plan->bytes[1] = (uint32_t)out;
    set_params(plan, &p, sizeof p);
}

static void plan_copy(plan_t *plan)
{
    dtn_cm_copy_params_t p = {.out_start = between(0, 9), .in_start = between(0, 9)};
    int32_t in = p.in_start + 1;
    int32_t out = p.out_start + 1;
    int32_t covered = 1;
    for (uint32_t i = 6; i-- > 0;) {
        p.dims[i] = between(1, 3);
        p.in_strides[i] = between(0, 9);
        p.out_strides[i] = covered;
        covered *= p.dims[i];
        in += (p.dims[i] - 1) * p.in_strides[i];
        out += (p.dims[i] - 1) * p.out_strides[i];
    }
    plan->inputs = 1;
    plan->bytes[0] = (uint32_t)in;
    plan->bytes[1] = (uint32_t)out;
    set_params(plan, &p, sizeof p);
}

static void plan_activation(plan_t *plan)
{
    dtn_cm_quantized_activation_params_t p = {between(1, 40)};
    plan->inputs = 2;
    plan->bytes[0] = plan->bytes[2] = (uint32_t)p.size;
    plan->bytes[1] = 256;
    set_params(plan, &p, sizeof p);
}

/* Strides of an operand that repeats along some dimensions of the output; its bytes. */
static uint32_t random_operand(const int32_t *dims, int32_t *strides)
{
    int32_t step = 1;
    for (uint32_t i = BROADCAST_RANK; i-- > 0;) {
        bool repeats = between(0, 2) == 0;
        strides[i] = repeats ? 0 : step;
        step *= repeats ? 1 : dims[i];
    }
    return (uint32_t)step;
}

static void plan_extremum(plan_t *plan, int32_t maximum)
{
    dtn_cm_maximum_params_t p = {.maximum = maximum};
    plan->inputs = 2;
    plan->bytes[2] = 1;
    for (uint32_t i = 0; i < BROADCAST_RANK; i++) {
        p.dims[i] = between(1, 3);
        plan->bytes[2] *= (uint32_t)p.dims[i];
    }
    plan->bytes[0] = random_operand(p.dims, p.a_strides);
    plan->bytes[1] = random_operand(p.dims, p.b_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_minimum(plan_t *plan)
{
    plan_extremum(plan, 0);
}

static void plan_maximum(plan_t *plan)
{
    plan_extremum(plan, 1);
}

/* One axis of a pool: the size of its input, and of its output. */
static void random_axis(int32_t *in, int32_t *out, int32_t *kernel, int32_t *stride, int32_t *pad)
{
    *kernel = between(1, 4);
    *stride = between(1, 3);
    *pad = between(0, *kernel - 1);
    *in = *kernel + between(0, 4);
    *out = (*in + 2 * *pad - *kernel) / *stride + 1;
}

static void plan_max_pool(plan_t *plan)
{
    dtn_cm_quantized_max_pool2d_params_t p = {
        .batches = between(1, 2), .channels = between(1, 9), .act_min = between(-128, 0), .act_max = between(0, 127)};
    random_axis(&p.in_h, &p.out_h, &p.kernel_h, &p.stride_h, &p.pad_top);
    random_axis(&p.in_w, &p.out_w, &p.kernel_w, &p.stride_w, &p.pad_left);
    plan->inputs = 1;
    plan->bytes[0] = (uint32_t)(p.batches * p.in_h * p.in_w * p.channels);
    plan->bytes[1] = (uint32_t)(p.batches * p.out_h * p.out_w * p.channels);
    set_params(plan, &p, sizeof p);
}

static void plan_average_pool(plan_t *plan)
{
    dtn_cm_quantized_avg_pool2d_params_t p = {.batches = between(1, 2),
                                              .channels = between(1, 9),
                                              .in_zp = between(-128, 127),
                                              .mult = 2,
                                              .shift = 1,
                                              .out_zp = between(-128, 127),
                                              .act_min = between(-128, 0),
                                              .act_max = between(0, 127)};
    random_axis(&p.in_h, &p.out_h, &p.kernel_h, &p.stride_h, &p.pad_top);
    random_axis(&p.in_w, &p.out_w, &p.kernel_w, &p.stride_w, &p.pad_left);
    plan->inputs = 1;
    plan->outputs = 2;
    plan->bytes[0] = (uint32_t)(p.batches * p.in_h * p.in_w * p.channels);
    plan->bytes[1] = (uint32_t)between(0, 9);
    plan->bytes[2] = (uint32_t)(p.batches * p.out_h * p.out_w * p.channels);
    set_params(plan, &p, sizeof p);
}

/* The same elements as int16. */
static void widen(plan_t *plan)
{
    plan->type = DTN_TYPE_S16;
    for (uint32_t i = 0; i < plan->inputs + plan->outputs; i++) {
        plan->bytes[i] *= 2;
    }
}

static void plan_pad_s16(plan_t *plan)
{
    plan_pad(plan);
    plan->words[plan->count - 1] = (uint32_t)between(INT16_MIN, INT16_MAX);
    widen(plan);
}

static void plan_extremum_s16(plan_t *plan)
{
    plan_extremum(plan, between(0, 1));
    widen(plan);
}

/* The sizes of a reduction; few are as large as sums of int16 can be, and larger. */
static void random_runs(plan_t *plan, int32_t *outer, int32_t *reduced, int32_t *inner)
{
    bool is_long = between(0, 31) == 0;
    *outer = is_long ? 1 : between(1, MAX_DIM);
    *reduced = is_long ? between(1 << 16, 1 << 18) : between(1, 40);
    *inner = is_long ? 1 : between(1, MAX_DIM);
    plan->inputs = 1;
    plan->bytes[0] = (uint32_t)(*outer * *reduced * *inner);
    plan->bytes[1] = (uint32_t)(*outer * *inner);
}

static void plan_reduce_extremum_s16(plan_t *plan)
{
    dtn_cm_reduce_extremum_s16_params_t p = {.maximum = between(0, 1)};
    random_runs(plan, &p.outer, &p.reduced, &p.inner);
    set_params(plan, &p, sizeof p);
    widen(plan);
}

static void plan_reduce_sum_s16(plan_t *plan)
{
    dtn_cm_reduce_sum_s16_params_t p = {.shift = between(0, 61)};
    random_runs(plan, &p.outer, &p.reduced, &p.inner);
    p.mult = between(0, 1) == 0 ? INT32_MAX : between(0, INT32_MAX) >> between(0, 30);
    p.divisor = between(0, 1) == 0 ? 1 : p.reduced;
    set_params(plan, &p, sizeof p);
    widen(plan);
}

typedef struct {
    dtn_operator_t run;
    void (*plan)(plan_t *plan);
} kind_t;

static const kind_t KINDS[] = {
    {dtn_cm_quantized_add, plan_add},
    {dtn_cm_quantized_mul, plan_mul},
    {dtn_cm_quantized_div, plan_div},
    {dtn_cm_softmax, plan_softmax},
    {dtn_cm_pad, plan_pad},
    {dtn_cm_copy, plan_copy},
    {dtn_cm_quantized_activation, plan_activation},
    {dtn_cm_minimum, plan_minimum},
    {dtn_cm_maximum, plan_maximum},
    {dtn_cm_quantized_max_pool2d, plan_max_pool},
    {dtn_cm_quantized_avg_pool2d, plan_average_pool},
    {dtn_cm_pad_s16, plan_pad_s16},
    {dtn_cm_extremum_s16, plan_extremum_s16},
    {dtn_cm_reduce_extremum_s16, plan_reduce_extremum_s16},
    {dtn_cm_reduce_sum_s16, plan_reduce_sum_s16},
};

/* Changes one number of the call, or none. */
static void damage(plan_t *plan)
{
    static const int32_t ends[] = {INT32_MIN, INT32_MAX, -1, 0, INT16_MIN, (int32_t)DTN_MAX_DIMENSION};
    switch (between(0, 5)) {
    case 0:
        plan->words[between(0, (int32_t)plan->count - 1)] = (uint32_t)between(INT32_MIN, INT32_MAX);
        break;
    case 1:
        plan->words[between(0, (int32_t)plan->count - 1)] += (uint32_t)between(-2, 2);
        break;
    case 2:
        plan->bytes[between(0, (int32_t)plan->inputs)] += (uint32_t)between(0, 2);
        break;
    case 3:
        plan->count += (uint32_t)between(-1, 1);
        break;
    case 4:
        plan->words[between(0, (int32_t)plan->count - 1)] = (uint32_t)ends[between(0, 5)];
        break;
    default:
        break;
    }
}

/* Any bytes, or all of them those with which sums are largest, which large values always have. */
static void fill(uint8_t *data, uint32_t bytes)
{
    if (bytes > 1 << 16 || between(0, 7) == 0) {
        memset(data, between(0, 1) == 0 ? 0x80 : 0x7F, bytes);
        return;
    }
    for (uint32_t j = 0; j < bytes; j++) {
        data[j] = (uint8_t)between(0, 255);
    }
}

/* True when the call ran. */
static bool one_call(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15) | 1U;
    const kind_t *kind = &KINDS[between(0, (int32_t)(sizeof KINDS / sizeof KINDS[0]) - 1)];
    plan_t plan = {.outputs = 1, .type = DTN_TYPE_S8};
    kind->plan(&plan);
    damage(&plan);
    dtn_operator_call_t call = {plan.words, plan.count, plan.inputs, plan.outputs, {{NULL, 0, 0}}};
    for (uint32_t i = 0; i < plan.inputs + plan.outputs; i++) {
        uint8_t *data = (uint8_t *)malloc(plan.bytes[i] == 0 ? 1 : plan.bytes[i]);
        if (data == NULL) {
            abort();
        }
        fill(data, plan.bytes[i]);
        call.values[i] = (dtn_tensor_t){data, plan.bytes[i], plan.type};
    }
    int32_t reason = kind->run(&call, DTN_PHASE_CHECK);
    CHECK(reason == DTN_OK || reason == DTN_REASON_OPERATOR, "seed %" PRIu64 ": reason %d", seed, (int)reason);
    if (reason == DTN_OK) {
        CHECK(kind->run(&call, DTN_PHASE_RUN) == DTN_OK, "seed %" PRIu64 " does not run", seed);
    }
    for (uint32_t i = 0; i < plan.inputs + plan.outputs; i++) {
        free(call.values[i].data);
    }
    return reason == DTN_OK;
}

int main(int count, char **arguments)
{
    return test_seeds(count, arguments, one_call, 90);
}
