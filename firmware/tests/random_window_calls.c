/* Random calls of the kernels that read maps: convolutions, pools, resizes. */
#include "random_parameters.h"
#include "test.h"

/* Fields of a window operator for its two axes. */
#define AXES(y, x)                                                                                                     \
    .in_h = (y).in, .out_h = (y).out, .kernel_h = (y).kernel, .stride_h = (y).stride, .pad_top = (y).pad,              \
    .in_w = (x).in, .out_w = (x).out, .kernel_w = (x).kernel, .stride_w = (x).stride, .pad_left = (x).pad

static void conv2d(build_t *build, uint64_t *state, axis_t y, axis_t x, int32_t in_c)
{
    dtn_conv2d_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .in_c = in_c,
        .out_c = random_size(state, 80),
        AXES(y, x),
        .dilation_h = y.dilation,
        .dilation_w = x.dilation,
        .in_zp = random_zero_point(state),
        .out_zp = random_zero_point(state),
    };
    int32_t patch = p.kernel_h * p.kernel_w * p.in_c;
    random_clamp(state, &p.act_min, &p.act_max);
    p.requant_count = test_between(state, 0, 2) == 0 ? 1 : p.out_c;
    p.out_pitch = p.out_c + (test_between(state, 0, 2) == 0 ? random_size(state, 48) : 0);
    /* The weights come last, so that the address sanitizer sees a kernel that reads beyond them. */
    build_ref_t bias = random_bias(build, state, p.out_c);
    build_ref_t rows = random_rows(build, state, p.requant_count);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.in_c)),
        random_constant(build, state, p.out_c * patch),
        bias,
        rows,
        build_output(build, (uint32_t)((p.batches * p.out_h * p.out_w - 1) * p.out_pitch + p.out_c)),
        build_scratch(build, 8U * (((uint32_t)patch + 15U) / 16U * 16U)),
    };
    build_call(build, DTN_KERNEL_CONV2D_S8, operands, &p);
}

void random_conv2d(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, true);
    axis_t x = random_axis(state, true);
    conv2d(build, state, y, x, random_size(state, 48));
}

void random_wide_conv2d(build_t *build, uint64_t *state)
{
    int32_t kernel = test_between(state, 1, 2);
    int32_t pad = kernel / 2;
    int32_t h = test_between(state, 3, 6);
    int32_t w = test_between(state, 40, 100);
    axis_t y = {.in = h, .out = h, .kernel = kernel, .stride = 1, .dilation = 1, .pad = pad};
    axis_t x = {.in = 2 * w, .out = w, .kernel = kernel, .stride = 2, .dilation = 1, .pad = pad};
    conv2d(build, state, y, x, test_between(state, 60, 180));
}

void random_depthwise(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, true);
    axis_t x = random_axis(state, true);
    dtn_depthwise_conv2d_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .in_c = random_size(state, 80),
        .multiplier = test_between(state, 0, 3) == 0 ? test_between(state, 1, 3) : 1,
        AXES(y, x),
        .dilation_h = y.dilation,
        .dilation_w = x.dilation,
        .in_zp = random_zero_point(state),
        .out_zp = random_zero_point(state),
    };
    if (p.multiplier > 1 && p.in_c <= 4) {
        p.multiplier = random_size(state, 80);
    }
    p.out_c = p.in_c * p.multiplier;
    random_clamp(state, &p.act_min, &p.act_max);
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

void random_average_pool(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, false);
    axis_t x = random_axis(state, false);
    dtn_average_pool_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .channels = random_size(state, 80),
        AXES(y, x),
        .in_zp = random_zero_point(state),
        .out_zp = random_zero_point(state),
    };
    random_clamp(state, &p.act_min, &p.act_max);
    random_mean_factor(state, &p.mult, &p.shift);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.channels)),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.channels)),
    };
    build_call(build, DTN_KERNEL_AVERAGE_POOL_S8, operands, &p);
}

void random_max_pool(build_t *build, uint64_t *state)
{
    axis_t y = random_axis(state, false);
    axis_t x = random_axis(state, false);
    dtn_max_pool_s8_params_t p = {
        .batches = test_between(state, 1, 2),
        .channels = random_size(state, 80),
        AXES(y, x),
    };
    random_clamp(state, &p.act_min, &p.act_max);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.channels)),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.channels)),
    };
    build_call(build, DTN_KERNEL_MAX_POOL_S8, operands, &p);
}

/* One axis of a resize: half-pixel centres, aligned corners or neither, or any numbers that the format allows. */
static void random_positions(uint64_t *state, int32_t in, int32_t out, int32_t *start, int32_t *step, int32_t *unit)
{
    switch (test_between(state, 0, 3)) {
    case 0:
        *start = in - out;
        *step = 2 * in;
        *unit = 2 * out;
        break;
    case 1:
        *start = 0;
        *step = in - 1;
        *unit = out > 1 ? out - 1 : 1;
        break;
    case 2:
        *start = 0;
        *step = in;
        *unit = out;
        break;
    default: {
        int32_t most = test_between(state, 0, 1) == 0 ? 9 : (int32_t)DTN_MAX_RESIZE_UNIT;
        *start = test_between(state, -most, most);
        *step = test_between(state, 0, most);
        *unit = test_between(state, 1, most);
        break;
    }
    }
}

void random_resize_bilinear(build_t *build, uint64_t *state)
{
    dtn_resize_bilinear_s8_params_t p = {.batches = test_between(state, 1, 2),
                                         .in_h = test_between(state, 1, 5),
                                         .in_w = test_between(state, 1, 5),
                                         .channels = random_size(state, 33),
                                         .out_h = test_between(state, 1, 9),
                                         .out_w = test_between(state, 1, 9),
                                         .zero_point = random_zero_point(state)};
    random_positions(state, p.in_h, p.out_h, &p.start_h, &p.step_h, &p.unit_h);
    random_positions(state, p.in_w, p.out_w, &p.start_w, &p.step_w, &p.unit_w);
    build_ref_t operands[] = {
        build_input(build, (uint32_t)(p.batches * p.in_h * p.in_w * p.channels)),
        build_output(build, (uint32_t)(p.batches * p.out_h * p.out_w * p.channels)),
    };
    build_call(build, DTN_KERNEL_RESIZE_BILINEAR_S8, operands, &p);
}
