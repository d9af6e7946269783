#include "random_call.h"

#include <stddef.h>
#include <string.h>

#include "random_parameters.h"
#include "test.h"

static void random_fully_connected(build_t *build, uint64_t *state)
{
    dtn_fully_connected_s8_params_t p = {
        .rows = test_between(state, 1, 3),
        .in_features = random_size(state, 80),
        .out_features = test_between(state, 0, 3) == 0 ? test_between(state, 64, 200) : random_size(state, 80),
        .in_zp = test_between(state, 0, 1) == 0 ? 0 : random_zero_point(state),
        .out_zp = random_zero_point(state),
    };
    random_clamp(state, &p.act_min, &p.act_max);
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
        dims[d] = d == 4 ? random_size(state, 80) : test_between(state, 0, 1) == 0 ? 1 : test_between(state, 1, 3);
        size *= dims[d];
    }
    return size;
}

/* Without a broadcast, the output sometimes has an input's place, as the format allows: then all of it is in scratch.
 */
static void place_binary(build_t *build, int32_t a_bytes, int32_t b_bytes, int32_t size, bool on_input,
                         build_ref_t *operands)
{
    operands[0] = on_input ? build_scratch(build, (uint32_t)size) : build_input(build, (uint32_t)a_bytes);
    operands[1] = build_input(build, (uint32_t)b_bytes);
    operands[2] = on_input ? operands[0] : build_output(build, (uint32_t)size);
}

static void move(build_t *build, build_ref_t from, build_ref_t to)
{
    dtn_copy_s8_params_t p = {0, {1, 1, 1, 1, 1, (int32_t)from.bytes}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
    build_ref_t operands[] = {from, to};
    build_call(build, DTN_KERNEL_COPY_S8, operands, &p);
}

/* One call of a broadcasting kernel; `add` has what they share. */
static void call_binary(build_t *build, uint64_t *state, uint32_t kind, const build_ref_t *operands,
                        dtn_add_s8_params_t *add)
{
    enum { SHARED = offsetof(dtn_add_s8_params_t, a_zp) };
    dtn_mul_s8_params_t mul = {.a_zp = add->a_zp,
                               .b_zp = add->b_zp,
                               .mult = add->a_mult,
                               .shift = add->shift,
                               .out_zp = add->out_zp,
                               .act_min = add->act_min,
                               .act_max = add->act_max};
    dtn_prelu_s8_params_t prelu = {.a_zp = add->a_zp,
                                   .b_zp = add->b_zp,
                                   .mult = add->a_mult,
                                   .shift = test_between(state, 30, 34),
                                   .alpha_mult = add->b_mult,
                                   .alpha_shift = add->shift,
                                   .out_zp = add->out_zp};
    dtn_extremum_s8_params_t extremum = {.maximum = test_between(state, 0, 1)};
    memcpy(&mul, add, SHARED);
    memcpy(&prelu, add, SHARED);
    memcpy(&extremum, add, SHARED);
    switch (kind) {
    case DTN_KERNEL_ADD_S8:
        add->b_mult *= test_between(state, 0, 1) == 0 ? 1 : -1;
        build_call(build, kind, operands, add);
        break;
    case DTN_KERNEL_MUL_S8:
        build_call(build, kind, operands, &mul);
        break;
    case DTN_KERNEL_PRELU_S8:
        build_call(build, kind, operands, &prelu);
        break;
    default:
        build_call(build, kind, operands, &extremum);
        break;
    }
}

static void random_binary(build_t *build, uint64_t *state, uint32_t kind)
{
    bool on_input = test_between(state, 0, 3) == 0;
    dtn_add_s8_params_t add = {
        .a_zp = random_zero_point(state), .b_zp = random_zero_point(state), .out_zp = random_zero_point(state)};
    build_ref_t operands[3];
    int32_t size = random_dims(state, add.dims);
    int32_t a_bytes = random_strides(state, add.dims, !on_input && test_between(state, 0, 1) == 0, add.a_strides);
    int32_t b_bytes = random_strides(state, add.dims, test_between(state, 0, 1) == 0, add.b_strides);
    random_clamp(state, &add.act_min, &add.act_max);
    random_row(state, &add.a_mult, &add.shift);
    random_row(state, &add.b_mult, &add.shift);
    if (test_between(state, 0, 3) != 0) {
        add.shift = kind == DTN_KERNEL_ADD_S8 ? test_between(state, 30, 34) : test_between(state, 35, 42);
    }
    place_binary(build, a_bytes, b_bytes, size, on_input, operands);
    if (on_input) {
        move(build, build_input(build, (uint32_t)size), operands[0]);
    }
    call_binary(build, state, kind, operands, &add);
    if (on_input) {
        move(build, operands[2], build_output(build, (uint32_t)size));
    }
}

static void random_reduce_sum(build_t *build, uint64_t *state)
{
    dtn_reduce_sum_s8_params_t p = {.outer = test_between(state, 1, 4),
                                    .reduced = random_size(state, 80),
                                    .inner = random_size(state, 80),
                                    .in_zp = random_zero_point(state),
                                    .out_zp = random_zero_point(state)};
    p.divisor = test_between(state, 0, 2) == 0 ? 1 : p.reduced;
    random_mean_factor(state, &p.mult, &p.shift);
    build_ref_t operands[] = {build_input(build, (uint32_t)(p.outer * p.reduced * p.inner)),
                              build_output(build, (uint32_t)(p.outer * p.inner))};
    build_call(build, DTN_KERNEL_REDUCE_SUM_S8, operands, &p);
}

static void random_reduce_extremum(build_t *build, uint64_t *state)
{
    dtn_reduce_extremum_s8_params_t p = {.outer = test_between(state, 1, 4),
                                         .reduced = random_size(state, 80),
                                         .inner = random_size(state, 80),
                                         .maximum = test_between(state, 0, 1)};
    build_ref_t operands[] = {build_input(build, (uint32_t)(p.outer * p.reduced * p.inner)),
                              build_output(build, (uint32_t)(p.outer * p.inner))};
    build_call(build, DTN_KERNEL_REDUCE_EXTREMUM_S8, operands, &p);
}

static void random_matmul(build_t *build, uint64_t *state)
{
    dtn_matmul_s8_params_t p = {.batches = test_between(state, 1, 3),
                                .rows = test_between(state, 1, 5),
                                .depth = random_size(state, 80),
                                .columns = random_size(state, 80),
                                .x_zp = random_zero_point(state),
                                .y_zp = random_zero_point(state),
                                .out_zp = random_zero_point(state)};
    random_clamp(state, &p.act_min, &p.act_max);
    random_row(state, &p.mult, &p.shift);
    build_ref_t operands[] = {build_input(build, (uint32_t)(p.batches * p.rows * p.depth)),
                              build_input(build, (uint32_t)(p.batches * p.depth * p.columns)),
                              build_output(build, (uint32_t)(p.batches * p.rows * p.columns))};
    build_call(build, DTN_KERNEL_MATMUL_S8, operands, &p);
}

static void random_softmax(build_t *build, uint64_t *state)
{
    uint32_t table[256] = {UINT32_C(1) << 30};
    dtn_softmax_s8_params_t p = {.rows = test_between(state, 1, 3), .out_zp = random_zero_point(state)};
    p.depth = test_between(state, 0, 3) == 0 ? test_between(state, 250, 300) : random_size(state, 80);
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

/* A transposition into a wider output, or a slice out of a wider input; some dimensions are read backwards. */
static void random_copy(build_t *build, uint64_t *state)
{
    dtn_copy_s8_params_t p = {.in_start = 0};
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
        p.dims[d] = d == 5 ? random_size(state, 33) : test_between(state, 1, 3);
    }
    for (int32_t d = 5; d >= 0; d--) {
        p.in_strides[d] = in_step;
        in_step *= p.dims[d] + (test_between(state, 0, 3) == 0 ? 1 : 0);
        p.out_strides[order[d]] = out_step;
        out_step *= p.dims[order[d]] + (test_between(state, 0, 3) == 0 ? 1 : 0);
    }
    for (int32_t d = 0; d < 6; d++) {
        if (test_between(state, 0, 3) == 0) {
            p.in_start += (p.dims[d] - 1) * p.in_strides[d];
            p.in_strides[d] = -p.in_strides[d];
        }
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
    dtn_fill_s8_params_t p = {.size = random_size(state, 80), .value = random_zero_point(state)};
    build_ref_t operands[] = {build_output(build, (uint32_t)p.size)};
    build_call(build, DTN_KERNEL_FILL_S8, operands, &p);
}

static void random_lut(build_t *build, uint64_t *state)
{
    dtn_lut_s8_params_t p = {.size = random_size(state, 80)};
    build_ref_t operands[] = {build_input(build, (uint32_t)p.size), random_constant(build, state, DTN_LUT_BYTES),
                              build_output(build, (uint32_t)p.size)};
    build_call(build, DTN_KERNEL_LUT_S8, operands, &p);
}

void random_call(build_t *build, uint32_t kind, uint64_t *state)
{
    static void (*const makers[DTN_KERNEL_KINDS])(build_t *build, uint64_t *state) = {
        [DTN_KERNEL_CONV2D_S8] = random_conv2d,
        [DTN_KERNEL_DEPTHWISE_CONV2D_S8] = random_depthwise,
        [DTN_KERNEL_FULLY_CONNECTED_S8] = random_fully_connected,
        [DTN_KERNEL_AVERAGE_POOL_S8] = random_average_pool,
        [DTN_KERNEL_MAX_POOL_S8] = random_max_pool,
        [DTN_KERNEL_REDUCE_SUM_S8] = random_reduce_sum,
        [DTN_KERNEL_SOFTMAX_S8] = random_softmax,
        [DTN_KERNEL_COPY_S8] = random_copy,
        [DTN_KERNEL_FILL_S8] = random_fill,
        [DTN_KERNEL_LUT_S8] = random_lut,
        [DTN_KERNEL_REDUCE_EXTREMUM_S8] = random_reduce_extremum,
        [DTN_KERNEL_MATMUL_S8] = random_matmul,
        [DTN_KERNEL_RESIZE_BILINEAR_S8] = random_resize_bilinear,
    };
    if (makers[kind] != NULL) {
        makers[kind](build, state);
    } else {
        random_binary(build, state, kind);
    }
}
