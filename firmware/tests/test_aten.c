/*
 * Random calls of the operators of ExecuTorch's portable kernels, most of them damaged. Calls that a check accepts must
 * stay within their values, each a separate heap block for the sanitizers.
 */
#include <stdlib.h>
#include <string.h>

#include "deuteron/aten.h"
#include "test.h"

enum { MAX_WORDS = 40, RANK = 5, MAPS = 4 };

typedef struct {
    uint32_t words[MAX_WORDS];
    uint32_t count;
    uint32_t inputs;
    uint32_t elements[4]; /* of the inputs, then of the output */
    uint32_t type;        /* of all values but the output of a comparison and the indices of a pool */
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

/* Random dimensions; what they have as product. */
static uint32_t random_dims(int32_t *dims)
{
    uint32_t product = 1;
    for (uint32_t i = 0; i < RANK; i++) {
        dims[i] = between(1, 3);
        product *= (uint32_t)dims[i];
    }
    return product;
}

/* Strides of a tensor that may repeat along some dimensions, and whose memory starts after `step` elements of another;
 * its elements. */
static uint32_t random_strides(const int32_t *dims, uint32_t rank, int32_t step, bool repeats, int32_t *strides)
{
    for (uint32_t i = rank; i-- > 0;) {
        bool once = repeats && between(0, 2) == 0;
        strides[i] = once ? 0 : step;
        step *= once ? 1 : dims[i];
    }
    return (uint32_t)step;
}

static void plan_pair(plan_t *plan, int32_t *dims, int32_t *a_strides, int32_t *b_strides)
{
    plan->inputs = 2;
    plan->elements[2] = random_dims(dims);
    plan->elements[0] = random_strides(dims, RANK, 1, true, a_strides);
    plan->elements[1] = random_strides(dims, RANK, 1, true, b_strides);
}

static void plan_product(plan_t *plan)
{
    dtn_op_mul_params_t p;
    plan_pair(plan, p.dims, p.a_strides, p.b_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_add(plan_t *plan)
{
    dtn_op_add_params_t p = {.alpha = between(INT32_MIN, INT32_MAX)};
    plan_pair(plan, p.dims, p.a_strides, p.b_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_compare(plan_t *plan)
{
    dtn_op_compare_params_t p = {.relation = between(0, 3)};
    plan->type = between(0, 1) == 0 ? DTN_TYPE_S8 : DTN_TYPE_F32;
    plan_pair(plan, p.dims, p.a_strides, p.b_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_clamp(plan_t *plan)
{
    dtn_op_clamp_params_t p = {between(-200, 200), between(-200, 200)};
    plan->type = between(0, 1) == 0 ? DTN_TYPE_S8 : DTN_TYPE_F32;
    plan->inputs = 1;
    plan->elements[0] = plan->elements[1] = (uint32_t)between(1, 30);
    set_params(plan, &p, sizeof p);
}

static void plan_amax(plan_t *plan)
{
    dtn_op_amax_params_t p;
    plan->type = between(0, 1) == 0 ? DTN_TYPE_S8 : DTN_TYPE_F32;
    plan->inputs = 1;
    plan->elements[1] = random_dims(p.kept);
    (void)random_dims(p.reduced);
    uint32_t inner = random_strides(p.reduced, RANK, 1, false, p.reduced_strides);
    plan->elements[0] = random_strides(p.kept, RANK, (int32_t)inner, false, p.kept_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_full(plan_t *plan)
{
    static const uint32_t TYPES[] = {DTN_TYPE_U8,  DTN_TYPE_S8,  DTN_TYPE_S16, DTN_TYPE_S32,
                                     DTN_TYPE_S64, DTN_TYPE_F32, DTN_TYPE_F64, DTN_TYPE_BOOL};
    dtn_op_full_params_t p = {between(INT32_MIN, INT32_MAX), between(INT32_MIN, INT32_MAX)};
    plan->type = TYPES[between(0, 7)];
    plan->inputs = 0;
    plan->elements[0] = (uint32_t)between(0, 30);
    set_params(plan, &p, sizeof p);
}

/* One axis of a convolution: the size of its input, and of its output. */
static void random_axis(bool transposed, int32_t *in, int32_t *out, int32_t *kernel, int32_t *stride, int32_t *pad,
                        int32_t *dilation)
{
    *kernel = between(1, 3);
    *stride = between(1, 3);
    *dilation = between(1, 2);
    int32_t reach = (*kernel - 1) * *dilation + 1;
    *pad = between(0, reach - 1);
    int32_t size = reach + between(0, 3);
    int32_t steps = (size + 2 * *pad - reach) / *stride + 1;
    *in = transposed ? steps : size;
    *out = transposed ? size : steps;
}

static void plan_convolution(plan_t *plan)
{
    dtn_op_convolution_params_t p = {.groups = between(1, 2), .transposed = between(0, 1), .has_bias = between(0, 1)};
    p.input[0] = p.output[0] = between(1, 2);
    p.input[1] = p.groups * between(1, 3);
    p.output[1] = p.groups * between(1, 3);
    bool transposed = p.transposed != 0;
    random_axis(transposed, &p.input[2], &p.output[2], &p.kernel_h, &p.stride_h, &p.pad_h, &p.dilation_h);
    random_axis(transposed, &p.input[3], &p.output[3], &p.kernel_w, &p.stride_w, &p.pad_w, &p.dilation_w);
    const int32_t weights[MAPS] = {p.output[1], p.input[1] / p.groups, p.kernel_h, p.kernel_w};
    plan->inputs = 2U + (uint32_t)p.has_bias;
    plan->elements[0] = random_strides(p.input, MAPS, 1, false, p.input_strides);
    plan->elements[1] = random_strides(weights, MAPS, 1, false, p.weight_strides);
    plan->elements[2] = (uint32_t)p.output[1];
    plan->elements[plan->inputs] = random_strides(p.output, MAPS, 1, false, p.output_strides);
    set_params(plan, &p, sizeof p);
}

static void plan_max_pool(plan_t *plan)
{
    dtn_op_max_pool2d_params_t p;
    p.input[0] = p.output[0] = between(1, 2);
    p.input[1] = p.output[1] = between(1, 3);
    random_axis(false, &p.input[2], &p.output[2], &p.kernel_h, &p.stride_h, &p.pad_h, &p.dilation_h);
    random_axis(false, &p.input[3], &p.output[3], &p.kernel_w, &p.stride_w, &p.pad_w, &p.dilation_w);
    plan->type = between(0, 1) == 0 ? DTN_TYPE_S8 : DTN_TYPE_F32;
    plan->inputs = 1;
    plan->elements[0] = random_strides(p.input, MAPS, 1, false, p.input_strides);
    plan->elements[1] = plan->elements[2] = random_strides(p.output, MAPS, 1, false, p.output_strides);
    set_params(plan, &p, sizeof p);
}

typedef struct {
    dtn_operator_t run;
    void (*plan)(plan_t *plan);
} kind_t;

static const kind_t KINDS[] = {
    {dtn_op_add, plan_add},
    {dtn_op_mul, plan_product},
    {dtn_op_div, plan_product},
    {dtn_op_compare, plan_compare},
    {dtn_op_clamp, plan_clamp},
    {dtn_op_amax, plan_amax},
    {dtn_op_full, plan_full},
    {dtn_op_convolution, plan_convolution},
    {dtn_op_max_pool2d, plan_max_pool},
};

/* Changes one number of the call, or none. */
static void damage(plan_t *plan)
{
    switch (between(0, 5)) {
    case 0:
        plan->words[between(0, (int32_t)plan->count - 1)] = (uint32_t)between(INT32_MIN, INT32_MAX);
        break;
    case 1:
        plan->words[between(0, (int32_t)plan->count - 1)] += (uint32_t)between(-2, 2);
        break;
    case 2:
        plan->elements[between(0, (int32_t)plan->inputs)] += (uint32_t)between(0, 2);
        break;
    case 3:
        plan->count += (uint32_t)between(-1, 1);
        break;
    case 4:
        plan->type = (uint32_t)between(0, 11);
        break;
    default:
        break;
    }
}

static uint32_t item_bytes(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_S64:
    case DTN_TYPE_F64:
        return 8;
    case DTN_TYPE_S32:
    case DTN_TYPE_F32:
        return 4;
    case DTN_TYPE_S16:
        return 2;
    default:
        return 1;
    }
}

/* True when the call ran. */
static bool one_call(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15) | 1U;
    const kind_t *kind = &KINDS[between(0, (int32_t)(sizeof KINDS / sizeof KINDS[0]) - 1)];
    plan_t plan = {.type = DTN_TYPE_F32};
    kind->plan(&plan);
    damage(&plan);
    bool pools = kind->run == dtn_op_max_pool2d;
    uint32_t values = plan.inputs + (pools ? 2 : 1);
    dtn_operator_call_t call = {plan.words, plan.count, plan.inputs, values - plan.inputs, {{NULL, 0, 0}}};
    for (uint32_t i = 0; i < values; i++) {
        uint32_t type = kind->run == dtn_op_compare && i == plan.inputs ? DTN_TYPE_BOOL : plan.type;
        type = pools && i == plan.inputs ? DTN_TYPE_S64 : type;
        uint32_t bytes = plan.elements[i] * item_bytes(type);
        uint8_t *data = (uint8_t *)malloc(bytes == 0 ? 1 : bytes);
        if (data == NULL) {
            abort();
        }
        for (uint32_t j = 0; j < bytes; j++) {
            data[j] = (uint8_t)between(0, 255);
        }
        call.values[i] = (dtn_tensor_t){data, bytes, type};
    }
    int32_t reason = kind->run(&call, DTN_PHASE_CHECK);
    CHECK(reason == DTN_OK || reason == DTN_REASON_OPERATOR, "seed %" PRIu64 ": reason %d", seed, (int)reason);
    if (reason == DTN_OK) {
        CHECK(kind->run(&call, DTN_PHASE_RUN) == DTN_OK, "seed %" PRIu64 " does not run", seed);
    }
    for (uint32_t i = 0; i < values; i++) {
        free(call.values[i].data);
    }
    return reason == DTN_OK;
}

int main(int count, char **arguments)
{
    return test_seeds(count, arguments, one_call, 90);
}
