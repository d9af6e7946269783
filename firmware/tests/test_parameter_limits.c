/* Limits that random calls do not come near: the last value that a check lets pass and the first that it does not. */
#include "container_builder.h"
#include "prepare_errors.h"
#include "test.h"

/* Fields of a window operator on one pixel. */
#define ONE_PIXEL                                                                                                      \
    .batches = 1, .in_h = 1, .in_w = 1, .out_h = 1, .out_w = 1, .kernel_h = 1, .kernel_w = 1, .stride_h = 1,           \
    .stride_w = 1

/* The result of prepare for a container with one call; `build` has its operands' memory. */
static NeutronError finish_error(build_t *build, uint32_t kind, const build_ref_t *operands, const void *params)
{
    build_call(build, kind, operands, params);
    build_finish(build);
    NeutronError error = prepare(build);
    build_free(build);
    return error;
}

/* Bytes of a map; the product is taken modulo 2^32, as a careless check would. */
static uint32_t map_bytes(int32_t batches, int32_t height, int32_t width, int32_t channels)
{
    return (uint32_t)batches * (uint32_t)height * (uint32_t)width * (uint32_t)channels;
}

static NeutronError max_pool_error(const dtn_max_pool_s8_params_t *p)
{
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, map_bytes(p->batches, p->in_h, p->in_w, p->channels)),
                              build_output(&build, map_bytes(p->batches, p->out_h, p->out_w, p->channels))};
    return finish_error(&build, DTN_KERNEL_MAX_POOL_S8, operands, p);
}

static NeutronError average_pool_error(const dtn_average_pool_s8_params_t *p)
{
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, map_bytes(p->batches, p->in_h, p->in_w, p->channels)),
                              build_output(&build, map_bytes(p->batches, p->out_h, p->out_w, p->channels))};
    return finish_error(&build, DTN_KERNEL_AVERAGE_POOL_S8, operands, p);
}

/* 65536 to the power of 4 is 0 modulo 2^64, the size of an empty operand. */
static void test_size_beyond_64_bits(void)
{
    dtn_max_pool_s8_params_t p = {.batches = 65536,
                                  .in_h = 65536,
                                  .in_w = 65536,
                                  .channels = 65536,
                                  .out_h = 65536,
                                  .out_w = 65536,
                                  .kernel_h = 1,
                                  .kernel_w = 1,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  .act_max = 127};
    check_error(max_pool_error(&p), DTN_REASON_OPERAND_SIZE, 0, "a map of 2^64 bytes");
}

/* A window of 3 on a map of 4 in steps of 2: the last of three starts at 4 without padding. */
static void test_windows(void)
{
    dtn_max_pool_s8_params_t p = {.batches = 1,
                                  .in_h = 4,
                                  .in_w = 4,
                                  .channels = 1,
                                  .out_h = 3,
                                  .out_w = 3,
                                  .kernel_h = 3,
                                  .kernel_w = 3,
                                  .stride_h = 2,
                                  .stride_w = 2,
                                  .pad_top = 1,
                                  .pad_left = 1,
                                  .act_max = 127};
    int32_t *pads[] = {&p.pad_top, &p.pad_left};
    check_error(max_pool_error(&p), DTN_OK, 0, "a last window on the last element");
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++) {
        *pads[i] = 0;
        check_error(max_pool_error(&p), DTN_REASON_WINDOW, 0, "a last window behind the last element");
        *pads[i] = 2;
        check_error(max_pool_error(&p), DTN_OK, 0, "a first window with one element");
        *pads[i] = 3;
        check_error(max_pool_error(&p), DTN_REASON_PARAMETER, 0, "a first window in the padding");
        *pads[i] = 1;
    }
}

static void test_areas(void)
{
    dtn_average_pool_s8_params_t p = {.batches = 1,
                                      .in_h = 1,
                                      .in_w = 1,
                                      .channels = 1,
                                      .out_h = 1,
                                      .out_w = 1,
                                      .kernel_h = 4096,
                                      .kernel_w = 2048,
                                      .stride_h = 1,
                                      .stride_w = 1,
                                      .mult = 1,
                                      .shift = 30,
                                      .act_max = 127};
    check_error(average_pool_error(&p), DTN_OK, 0, "an area of 2^23");
    p.kernel_w = 2049;
    check_error(average_pool_error(&p), DTN_REASON_PARAMETER, 0, "an area above 2^23");
}

/* A divisor and the shift before the division: their product may reach 2^61. */
static void test_divisors(void)
{
    dtn_reduce_sum_s8_params_t p = {.outer = 1, .reduced = 1, .inner = 1, .divisor = 1 << 23, .mult = 1, .shift = 38};
    for (int above = 0; above < 2; above++) {
        build_t build;
        build_start(&build);
        build_ref_t operands[] = {build_input(&build, 1), build_output(&build, 1)};
        check_error(finish_error(&build, DTN_KERNEL_REDUCE_SUM_S8, operands, &p),
                    above != 0 ? DTN_REASON_PARAMETER : DTN_OK, 0, "a divisor of 2^23");
        p.shift = 39;
    }
}

/* `count` requantization rows for three channels. */
static NeutronError rows_error(uint32_t kind, int32_t count)
{
    static const int32_t rows[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    dtn_conv2d_s8_params_t conv = {ONE_PIXEL,       .in_c = 3,       .out_c = 3,
                                   .dilation_h = 1, .dilation_w = 1, .requant_count = count,
                                   .act_max = 127,  .out_pitch = 3};
    dtn_depthwise_conv2d_s8_params_t depthwise = {
        ONE_PIXEL,     .in_c = 3, .out_c = 3, .multiplier = 1, .dilation_h = 1, .dilation_w = 1, .requant_count = count,
        .act_max = 127};
    dtn_fully_connected_s8_params_t connected = {
        .rows = 1, .in_features = 3, .out_features = 3, .requant_count = count, .act_max = 127};
    const void *params = kind == DTN_KERNEL_CONV2D_S8             ? (const void *)&conv
                         : kind == DTN_KERNEL_DEPTHWISE_CONV2D_S8 ? (const void *)&depthwise
                                                                  : (const void *)&connected;
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {
        build_input(&build, 3),           build_constant(&build, NULL, kind == DTN_KERNEL_DEPTHWISE_CONV2D_S8 ? 3 : 9),
        build_constant(&build, NULL, 12), build_constant(&build, rows, 8 * (uint32_t)count),
        build_output(&build, 3),          build_scratch(&build, 128)};
    return finish_error(&build, kind, operands, params);
}

static void test_row_counts(void)
{
    static const uint32_t kinds[] = {DTN_KERNEL_CONV2D_S8, DTN_KERNEL_DEPTHWISE_CONV2D_S8,
                                     DTN_KERNEL_FULLY_CONNECTED_S8};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        check_error(rows_error(kinds[i], 1), DTN_OK, 0, "one row");
        check_error(rows_error(kinds[i], 2), DTN_REASON_REQUANT_COUNT, 0, "two rows for three channels");
        check_error(rows_error(kinds[i], 3), DTN_OK, 0, "a row per channel");
        check_error(rows_error(kinds[i], 4), DTN_REASON_REQUANT_COUNT, 0, "four rows for three channels");
    }
}

static NeutronError softmax_error(uint32_t one, uint32_t next, int32_t shift)
{
    uint32_t table[256] = {one, next};
    dtn_softmax_s8_params_t p = {.rows = 1, .depth = 8, .mult = 1, .shift = shift, .out_zp = -128};
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, 8), build_constant(&build, table, sizeof table),
                              build_output(&build, 8)};
    return finish_error(&build, DTN_KERNEL_SOFTMAX_S8, operands, &p);
}

static void test_softmax(void)
{
    const uint32_t one = UINT32_C(1) << 30;
    check_error(softmax_error(one, one, 0), DTN_OK, 0, "a shift of 0");
    check_error(softmax_error(one, one, 16), DTN_OK, 0, "a shift of 16");
    check_error(softmax_error(one, one, -1), DTN_REASON_PARAMETER, 0, "a shift of -1");
    check_error(softmax_error(one - 1, 0, 0), DTN_REASON_SOFTMAX_TABLE, 0, "a table that starts below 2^30");
    check_error(softmax_error(one, one + 1, 0), DTN_REASON_SOFTMAX_TABLE, 0, "a table that exceeds 2^30");
}

/* add of dims [4, 8] on operands of these sizes, both read without gaps. */
static NeutronError add_error(uint32_t a_bytes, uint32_t b_bytes)
{
    dtn_add_s8_params_t p = {.dims = {1, 1, 1, 4, 8},
                             .a_strides = {0, 0, 0, 8, 1},
                             .b_strides = {0, 0, 0, 8, 1},
                             .a_mult = 1,
                             .b_mult = 1,
                             .shift = 1,
                             .act_max = 127};
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, a_bytes), build_input(&build, b_bytes), build_output(&build, 32)};
    return finish_error(&build, DTN_KERNEL_ADD_S8, operands, &p);
}

static void test_reaches(void)
{
    check_error(add_error(32, 33), DTN_OK, 0, "operands that are large enough");
    check_error(add_error(31, 32), DTN_REASON_OPERAND_SIZE, 0, "a byte too little for a");
    check_error(add_error(32, 31), DTN_REASON_OPERAND_SIZE, 0, "a byte too little for b");
}

int main(void)
{
    test_size_beyond_64_bits();
    test_windows();
    test_areas();
    test_divisors();
    test_row_counts();
    test_softmax();
    test_reaches();
    return test_result();
}
