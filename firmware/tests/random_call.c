#include "random_call.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* Sizes around the widths at which kernels change their way. */
static int32_t awkward(uint64_t *state, int32_t most)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 80};
    int32_t size = sizes[test_between(state, 0, (int32_t)(sizeof sizes / sizeof sizes[0]) - 1)];
    return size <= most ? size : test_between(state, 1, most);
}

static int32_t zero_point(uint64_t *state)
{
    int32_t choice = test_between(state, 0, 5);
    return choice == 0 ? -128 : choice == 1 ? 127 : test_between(state, -128, 127);
}

static void clamp(uint64_t *state, int32_t *lo, int32_t *hi)
{
    *lo = -128;
    *hi = 127;
    if (test_between(state, 0, 2) == 0) {
        *lo = test_between(state, -128, 127);
        *hi = test_between(state, *lo, 127);
    }
}

/* Mostly factors that keep results in range, sometimes any that the format allows. */
static void row(uint64_t *state, int32_t *multiplier, int32_t *shift)
{
    bool usual = test_between(state, 0, 7) != 0;
    *multiplier = usual ? test_between(state, 1 << 30, INT32_MAX) : test_between(state, 0, INT32_MAX);
    *shift = usual ? test_between(state, 33, 46) : test_between(state, 1, 62);
}

static build_ref_t random_constant(build_t *build, uint64_t *state, int32_t bytes)
{
    uint8_t *data = (uint8_t *)build_alloc((uint32_t)bytes);
    for (int32_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)test_random(state);
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)bytes);
    free(data);
    return ref;
}

static build_ref_t random_rows(build_t *build, uint64_t *state, int32_t count)
{
    int32_t *data = (int32_t *)build_alloc((uint32_t)count * DTN_REQUANT_ROW_BYTES);
    bool any = test_between(state, 0, 3) == 0;
    for (int32_t i = 0; i < count; i++) {
        row(state, &data[2 * i], &data[2 * i + 1]);
        if (!any && data[2 * i + 1] < 33) {
            data[2 * i + 1] = 33 + data[2 * i + 1] % 30; /* a table without small shifts takes another way */
        }
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)count * DTN_REQUANT_ROW_BYTES);
    free(data);
    return ref;
}

static build_ref_t random_bias(build_t *build, uint64_t *state, int32_t count)
{
    int32_t *data = (int32_t *)build_alloc((uint32_t)count * 4);
    for (int32_t i = 0; i < count; i++) {
        data[i] = test_between(state, -100000, 100000);
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)count * 4);
    free(data);
    return ref;
}

/* One axis of a windowed kernel with every window touching the map. */
typedef struct {
    int32_t in;
    int32_t out;
    int32_t kernel;
    int32_t stride;
    int32_t dilation;
    int32_t pad;
} axis_t;

static axis_t random_axis(uint64_t *state, bool dilate)
{
    axis_t axis;
    axis.in = test_between(state, 1, 9);
    axis.kernel = test_between(state, 0, 2) == 0 ? 1 : test_between(state, 1, 4);
    axis.stride = test_between(state, 1, 3);
    axis.dilation = dilate && test_between(state, 0, 2) == 0 ? test_between(state, 1, 3) : 1;
    axis.pad = test_between(state, 0, (axis.kernel - 1) * axis.dilation);
    axis.out = test_between(state, 1, (axis.in + axis.pad - 1) / axis.stride + 1);
    return axis;
}

static void random_conv2d(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, true);
    axis_t x = random_axis(state, true);
    dtn_conv2d_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .in_c = awkward(state, 48),
        .out_c = awkward(state, 48),
        .in_h = y.in,
        .out_h = y.out,
        .kernel_h = y.kernel,
        .stride_h = y.stride,
        .dilation_h = y.dilation,
        .pad_top = y.pad,
        .in_w = x.in,
        .out_w = x.out,
        .kernel_w = x.kernel,
        .stride_w = x.stride,
        .dilation_w = x.dilation,
        .pad_left = x.pad,
        .in_zp = zero_point(state),
        .out_zp = zero_point(state),
    };
    int32_t patch = p.kernel_h * p.kernel_w * p.in_c;
    clamp(state, &p.act_min, &p.act_max);
    p.requant_count = test_between(state, 0, 2) == 0 ? 1 : p.out_c;
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.in_c)),
        random_constant(build, state, p.out_c * patch),
        random_bias(build, state, p.out_c),
        random_rows(build, state, p.requant_count),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.out_c)),
        build_scratch(build, 8U * (((uint32_t)patch + 15U) / 16U * 16U)),
    };
    build_call(build, DTN_KERNEL_CONV2D_S8, operands, &p);
}

static void random_depthwise(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, true);
    axis_t x = random_axis(state, true);
    dtn_depthwise_conv2d_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .in_c = awkward(state, 80),
        .multiplier = test_between(state, 0, 3) == 0 ? test_between(state, 1, 3) : 1,
        .in_h = y.in,
        .out_h = y.out,
        .kernel_h = y.kernel,
        .stride_h = y.stride,
        .dilation_h = y.dilation,
        .pad_top = y.pad,
        .in_w = x.in,
        .out_w = x.out,
        .kernel_w = x.kernel,
        .stride_w = x.stride,
        .dilation_w = x.dilation,
        .pad_left = x.pad,
        .in_zp = zero_point(state),
        .out_zp = zero_point(state),
    };
    p.out_c = p.in_c * p.multiplier;
    clamp(state, &p.act_min, &p.act_max);
    p.requant_count = test_between(state, 0, 2) == 0 ? 1 : p.out_c;
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.in_c)),
        random_constant(build, state, p.kernel_h * p.kernel_w * p.out_c),
        random_bias(build, state, p.out_c),
        random_rows(build, state, p.requant_count),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.out_c)),
    };
    build_call(build, DTN_KERNEL_DEPTHWISE_CONV2D_S8, operands, &p);
}

static void random_fully_connected(build_t *build, uint64_t *state)
{
    dtn_fully_connected_s8_params_t p = {
        .rows = test_between(state, 1, 3),
        .in_features = awkward(state, 80),
        .out_features = awkward(state, 80),
        .in_zp = zero_point(state),
        .out_zp = zero_point(state),
    };
    clamp(state, &p.act_min, &p.act_max);
    p.requant_count = test_between(state, 0, 2) == 0 ? 1 : p.out_features;
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.rows * p.in_features)),
        random_constant(build, state, p.in_features * p.out_features),
        random_bias(build, state, p.out_features),
        random_rows(build, state, p.requant_count),
        build_output(build, (uint32_t)(p.rows * p.out_features)),
    };
    build_call(build, DTN_KERNEL_FULLY_CONNECTED_S8, operands, &p);
}

/* Contiguous strides of `dims`, some dimensions broadcast; returns the bytes that they reach. */
static int32_t random_strides(uint64_t *state, const int32_t *dims, bool broadcast, int32_t *strides)
{
    int32_t step = 1;
    for (int32_t d = 4; d >= 0; d--) {
        bool repeat = broadcast && test_between(state, 0, 2) == 0;
        strides[d] = repeat ? 0 : step;
        step *= repeat ? 1 : dims[d];
    }
    return step;
}

static int32_t random_dims(uint64_t *state, int32_t *dims)
{
    int32_t size = 1;
    for (int32_t d = 0; d < 5; d++) {
        dims[d] = d == 4 ? awkward(state, 80) : test_between(state, 0, 1) == 0 ? 1 : test_between(state, 1, 3);
        size *= dims[d];
    }
    return size;
}

/* With nothing broadcast the output sometimes lies on an input, as the format allows: then all of it is in scratch. */
static void place_binary(build_t *build, int32_t a_bytes, int32_t b_bytes, int32_t size, bool on_input,
                         build_ref_t *operands)
{
    operands[0] = on_input ? build_scratch(build, (uint32_t)size) : build_input(build, (uint32_t)a_bytes);
    operands[1] = build_input(build, (uint32_t)b_bytes);
    operands[2] = on_input ? operands[0] : build_output(build, (uint32_t)size);
}

static void move(build_t *build, build_ref_t from, build_ref_t to)
{
    dtn_copy_s8_params_t p = {{1, 1, 1, 1, 1, (int32_t)from.bytes}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
    build_ref_t operands[] = {from, to};
    build_call(build, DTN_KERNEL_COPY_S8, operands, &p);
}

static void random_binary(build_t *build, uint64_t *state, uint32_t kind)
{
    bool on_input = test_between(state, 0, 3) == 0;
    dtn_add_s8_params_t add = {.a_zp = zero_point(state), .b_zp = zero_point(state), .out_zp = zero_point(state)};
    build_ref_t operands[3];
    int32_t size = random_dims(state, add.dims);
    int32_t a_bytes = random_strides(state, add.dims, !on_input && test_between(state, 0, 1) == 0, add.a_strides);
    int32_t b_bytes = random_strides(state, add.dims, test_between(state, 0, 1) == 0, add.b_strides);
    clamp(state, &add.act_min, &add.act_max);
    row(state, &add.a_mult, &add.shift);
    row(state, &add.b_mult, &add.shift);
    if (test_between(state, 0, 3) != 0) {
        add.shift = kind == DTN_KERNEL_ADD_S8 ? test_between(state, 30, 34) : test_between(state, 35, 42);
    }
    place_binary(build, a_bytes, b_bytes, size, on_input, operands);
    if (on_input) {
        move(build, build_input(build, (uint32_t)size), operands[0]);
    }
    if (kind == DTN_KERNEL_ADD_S8) {
        build_call(build, kind, operands, &add);
    } else {
        dtn_mul_s8_params_t mul = {.a_zp = add.a_zp,
                                   .b_zp = add.b_zp,
                                   .mult = add.a_mult,
                                   .shift = add.shift,
                                   .out_zp = add.out_zp,
                                   .act_min = add.act_min,
                                   .act_max = add.act_max};
        memcpy(mul.dims, add.dims, sizeof mul.dims);
        memcpy(mul.a_strides, add.a_strides, sizeof mul.a_strides);
        memcpy(mul.b_strides, add.b_strides, sizeof mul.b_strides);
        build_call(build, kind, operands, &mul);
    }
    if (on_input) {
        move(build, operands[2], build_output(build, (uint32_t)size));
    }
}

static void random_average_pool(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, false);
    axis_t x = random_axis(state, false);
    dtn_average_pool_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .channels = awkward(state, 80),
        .in_h = y.in,
        .out_h = y.out,
        .kernel_h = y.kernel,
        .stride_h = y.stride,
        .pad_top = y.pad,
        .in_w = x.in,
        .out_w = x.out,
        .kernel_w = x.kernel,
        .stride_w = x.stride,
        .pad_left = x.pad,
        .in_zp = zero_point(state),
        .out_zp = zero_point(state),
    };
    bool inside = y.pad == 0 && x.pad == 0 && (y.out - 1) * y.stride + y.kernel <= y.in &&
                  (x.out - 1) * x.stride + x.kernel <= x.in;
    p.requant_count = inside && test_between(state, 0, 1) == 0 ? 1 : p.kernel_h * p.kernel_w;
    clamp(state, &p.act_min, &p.act_max);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.channels)),
        random_rows(build, state, p.requant_count),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.channels)),
    };
    build_call(build, DTN_KERNEL_AVERAGE_POOL_S8, operands, &p);
}

static void random_max_pool(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, false);
    axis_t x = random_axis(state, false);
    dtn_max_pool_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .channels = awkward(state, 80),
        .in_h = y.in,
        .out_h = y.out,
        .kernel_h = y.kernel,
        .stride_h = y.stride,
        .pad_top = y.pad,
        .in_w = x.in,
        .out_w = x.out,
        .kernel_w = x.kernel,
        .stride_w = x.stride,
        .pad_left = x.pad,
    };
    clamp(state, &p.act_min, &p.act_max);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.channels)),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.channels)),
    };
    build_call(build, DTN_KERNEL_MAX_POOL_S8, operands, &p);
}

static void random_mean(build_t *build, uint64_t *state)
{
    dtn_mean_s8_params_t p = {.outer = test_between(state, 1, 4),
                              .reduced = awkward(state, 80),
                              .inner = awkward(state, 80),
                              .in_zp = zero_point(state),
                              .out_zp = zero_point(state)};
    row(state, &p.mult, &p.shift);
    build_ref_t operands[] = {build_input(build, (uint32_t)(p.outer * p.reduced * p.inner)),
                              build_output(build, (uint32_t)(p.outer * p.inner))};
    build_call(build, DTN_KERNEL_MEAN_S8, operands, &p);
}

static void random_softmax(build_t *build, uint64_t *state)
{
    uint32_t table[256] = {UINT32_C(1) << 30};
    dtn_softmax_s8_params_t p = {.rows = test_between(state, 1, 3), .out_zp = zero_point(state)};
    p.depth = test_between(state, 0, 3) == 0 ? test_between(state, 250, 300) : awkward(state, 80);
    p.shift = test_between(state, 0, 16);
    p.mult = test_between(state, 0, 3) == 0 ? test_between(state, 1, INT32_MAX) : 256 << p.shift;
    for (uint32_t i = 1; i < 256; i++) {
        table[i] = table[i - 1] - (table[i - 1] >> test_between(state, 1, 6));
    }
    build_ref_t operands[] = {build_input(build, (uint32_t)(p.rows * p.depth)),
                              build_constant(build, table, sizeof table),
                              build_output(build, (uint32_t)(p.rows * p.depth))};
    build_call(build, DTN_KERNEL_SOFTMAX_S8, operands, &p);
}

/* A transposition into a wider output, or a slice out of a wider input. */
static void random_copy(build_t *build, uint64_t *state)
{
    dtn_copy_s8_params_t p;
    int32_t order[6] = {0, 1, 2, 3, 4, 5};
    int32_t in_step = 1;
    int32_t out_step = 1;
    int32_t in_offset = test_between(state, 0, 3);
    int32_t out_offset = test_between(state, 0, 3);
    for (int32_t d = 5; d > 0 && test_between(state, 0, 1) == 0; d--) {
        int32_t other = test_between(state, 0, d);
        int32_t swapped = order[d];
        order[d] = order[other];
        order[other] = swapped;
    }
    for (int32_t d = 5; d >= 0; d--) {
        p.dims[d] = d == 5 ? awkward(state, 33) : test_between(state, 1, 3);
    }
    for (int32_t d = 5; d >= 0; d--) {
        p.in_strides[d] = in_step;
        in_step *= p.dims[d] + (test_between(state, 0, 3) == 0 ? 1 : 0);
        p.out_strides[order[d]] = out_step;
        out_step *= p.dims[order[d]] + (test_between(state, 0, 3) == 0 ? 1 : 0);
    }
    build_ref_t operands[] = {build_input(build, (uint32_t)(in_step + in_offset)),
                              build_output(build, (uint32_t)(out_step + out_offset))};
    operands[0].offset = (uint32_t)in_offset;
    operands[0].bytes = (uint32_t)in_step;
    operands[1].offset = (uint32_t)out_offset;
    operands[1].bytes = (uint32_t)out_step;
    build_call(build, DTN_KERNEL_COPY_S8, operands, &p);
}

static void random_fill(build_t *build, uint64_t *state)
{
    dtn_fill_s8_params_t p = {.size = awkward(state, 80), .value = zero_point(state)};
    build_ref_t operands[] = {build_output(build, (uint32_t)p.size)};
    build_call(build, DTN_KERNEL_FILL_S8, operands, &p);
}

static void random_lut(build_t *build, uint64_t *state)
{
    dtn_lut_s8_params_t p = {.size = awkward(state, 80)};
    build_ref_t operands[] = {build_input(build, (uint32_t)p.size), random_constant(build, state, DTN_LUT_BYTES),
                              build_output(build, (uint32_t)p.size)};
    build_call(build, DTN_KERNEL_LUT_S8, operands, &p);
}

void random_call(build_t *build, uint32_t kind, uint64_t *state)
{
    switch (kind) {
    case DTN_KERNEL_CONV2D_S8:
        random_conv2d(build, state);
        break;
    case DTN_KERNEL_DEPTHWISE_CONV2D_S8:
        random_depthwise(build, state);
        break;
    case DTN_KERNEL_FULLY_CONNECTED_S8:
        random_fully_connected(build, state);
        break;
    case DTN_KERNEL_ADD_S8:
    case DTN_KERNEL_MUL_S8:
        random_binary(build, state, kind);
        break;
    case DTN_KERNEL_AVERAGE_POOL_S8:
        random_average_pool(build, state);
        break;
    case DTN_KERNEL_MAX_POOL_S8:
        random_max_pool(build, state);
        break;
    case DTN_KERNEL_MEAN_S8:
        random_mean(build, state);
        break;
    case DTN_KERNEL_SOFTMAX_S8:
        random_softmax(build, state);
        break;
    case DTN_KERNEL_COPY_S8:
        random_copy(build, state);
        break;
    case DTN_KERNEL_FILL_S8:
        random_fill(build, state);
        break;
    default:
        random_lut(build, state);
        break;
    }
}
