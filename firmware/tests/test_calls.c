/* The driver refuses every broken rule of a kernel call with its own reason, and takes what the format allows. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "prepare_errors.h"
#include "random_call.h"
#include "test.h"

/* A parameter or operand word of a random call changed. */
typedef struct {
    uint32_t kind;
    uint32_t word; /* of the parameters, or PART(operand, word) */
    uint32_t value;
    bool add; /* to the word, else instead of it */
    dtn_reason_t reason;
} call_case_t;

#define PARAM(kernel, field) ((uint32_t)(offsetof(dtn_##kernel##_params_t, field) / sizeof(int32_t)))
#define PART(operand, word) (1000U + 3U * (operand) + (word))
#define WINDOW_CASES(NAME, name)                                                                                       \
    {DTN_KERNEL_##NAME, PARAM(name, batches), 0, false, DTN_REASON_PARAMETER},                                         \
        {DTN_KERNEL_##NAME, PARAM(name, batches), 65537, false, DTN_REASON_PARAMETER},                                 \
        {DTN_KERNEL_##NAME, PARAM(name, batches), 1, true, DTN_REASON_OPERAND_SIZE},                                   \
        {DTN_KERNEL_##NAME, PARAM(name, in_h), 0, false, DTN_REASON_PARAMETER},                                        \
        {DTN_KERNEL_##NAME, PARAM(name, in_w), 1, true, DTN_REASON_OPERAND_SIZE},                                      \
        {DTN_KERNEL_##NAME, PARAM(name, out_h), 60000, false, DTN_REASON_WINDOW},                                      \
        {DTN_KERNEL_##NAME, PARAM(name, out_w), 60000, false, DTN_REASON_WINDOW},                                      \
        {DTN_KERNEL_##NAME, PARAM(name, kernel_h), 0x80000000, false, DTN_REASON_PARAMETER},                           \
        {DTN_KERNEL_##NAME, PARAM(name, stride_h), 0, false, DTN_REASON_PARAMETER},                                    \
        {DTN_KERNEL_##NAME, PARAM(name, stride_w), 65537, false, DTN_REASON_PARAMETER},                                \
        {DTN_KERNEL_##NAME, PARAM(name, pad_top), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},                            \
        {DTN_KERNEL_##NAME, PARAM(name, pad_left), 100, false, DTN_REASON_PARAMETER},                                  \
        {DTN_KERNEL_##NAME, PARAM(name, act_min), (uint32_t)-129, false, DTN_REASON_PARAMETER},                        \
    {                                                                                                                  \
        DTN_KERNEL_##NAME, PARAM(name, act_max), 128, false, DTN_REASON_PARAMETER                                      \
    }
#define QUANT_CASES(NAME, name, requant)                                                                               \
    {DTN_KERNEL_##NAME, PARAM(name, in_zp), 128, false, DTN_REASON_PARAMETER},                                         \
        {DTN_KERNEL_##NAME, PARAM(name, out_zp), (uint32_t)-129, false, DTN_REASON_PARAMETER},                         \
        {DTN_KERNEL_##NAME, PARAM(name, requant_count), 0, false, DTN_REASON_REQUANT_COUNT},                           \
        {DTN_KERNEL_##NAME, PART(requant, 2), (uint32_t)-8, true, DTN_REASON_OPERAND_SIZE},                            \
    {                                                                                                                  \
        DTN_KERNEL_##NAME, PART(requant, 1), 8, true, DTN_REASON_OPERAND_ALIGNMENT                                     \
    }
#define BROADCAST_CASES(NAME, name)                                                                                    \
    {DTN_KERNEL_##NAME, PARAM(name, dims), 0, false, DTN_REASON_PARAMETER},                                            \
        {DTN_KERNEL_##NAME, PARAM(name, dims) + 4, 1, true, DTN_REASON_OPERAND_SIZE},                                  \
        {DTN_KERNEL_##NAME, PARAM(name, a_strides), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},                          \
    {                                                                                                                  \
        DTN_KERNEL_##NAME, PARAM(name, b_strides) + 4, 0x80000000, false, DTN_REASON_PARAMETER                         \
    }
#define BINARY_CASES(NAME, name)                                                                                       \
    BROADCAST_CASES(NAME, name), {DTN_KERNEL_##NAME, PARAM(name, a_zp), 128, false, DTN_REASON_PARAMETER},             \
        {DTN_KERNEL_##NAME, PARAM(name, b_zp), 128, false, DTN_REASON_PARAMETER},                                      \
        {DTN_KERNEL_##NAME, PARAM(name, shift), 0, false, DTN_REASON_PARAMETER},                                       \
    {                                                                                                                  \
        DTN_KERNEL_##NAME, PARAM(name, shift), 63, false, DTN_REASON_PARAMETER                                         \
    }

static const call_case_t calls_refused[] = {
    WINDOW_CASES(CONV2D_S8, conv2d_s8),
    QUANT_CASES(CONV2D_S8, conv2d_s8, DTN_CONV2D_S8_REQUANT),
    {DTN_KERNEL_CONV2D_S8, PARAM(conv2d_s8, in_c), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_CONV2D_S8, PARAM(conv2d_s8, dilation_w), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_CONV2D_S8, PARAM(conv2d_s8, out_pitch), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_CONV2D_S8, PART(DTN_CONV2D_S8_OUTPUT, 2), (uint32_t)-1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_CONV2D_S8, PARAM(conv2d_s8, out_pitch), 65537, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_CONV2D_S8, PART(DTN_CONV2D_S8_BIAS, 2), (uint32_t)-4, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_CONV2D_S8, PART(DTN_CONV2D_S8_WEIGHTS, 2), (uint32_t)-1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_CONV2D_S8, PART(DTN_CONV2D_S8_WORKSPACE, 2), (uint32_t)-16, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_CONV2D_S8, PART(DTN_CONV2D_S8_WORKSPACE, 0), 3, false, DTN_REASON_OPERAND_READ_ONLY},
    WINDOW_CASES(DEPTHWISE_CONV2D_S8, depthwise_conv2d_s8),
    QUANT_CASES(DEPTHWISE_CONV2D_S8, depthwise_conv2d_s8, DTN_DEPTHWISE_CONV2D_S8_REQUANT),
    {DTN_KERNEL_DEPTHWISE_CONV2D_S8, PARAM(depthwise_conv2d_s8, multiplier), 1, true, DTN_REASON_PARAMETER},
    {DTN_KERNEL_DEPTHWISE_CONV2D_S8, PART(DTN_DEPTHWISE_CONV2D_S8_WEIGHTS, 2), (uint32_t)-1, true,
     DTN_REASON_OPERAND_SIZE},
    QUANT_CASES(FULLY_CONNECTED_S8, fully_connected_s8, DTN_FULLY_CONNECTED_S8_REQUANT),
    {DTN_KERNEL_FULLY_CONNECTED_S8, PARAM(fully_connected_s8, rows), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_FULLY_CONNECTED_S8, PARAM(fully_connected_s8, in_features), 1, true, DTN_REASON_OPERAND_SIZE},
    BINARY_CASES(ADD_S8, add_s8),
    {DTN_KERNEL_ADD_S8, PARAM(add_s8, a_mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_ADD_S8, PARAM(add_s8, b_mult), 0x80000000, false, DTN_REASON_PARAMETER},
    BINARY_CASES(MUL_S8, mul_s8),
    {DTN_KERNEL_MUL_S8, PARAM(mul_s8, mult), 0x80000000, false, DTN_REASON_PARAMETER},
    WINDOW_CASES(AVERAGE_POOL_S8, average_pool_s8),
    {DTN_KERNEL_AVERAGE_POOL_S8, PARAM(average_pool_s8, in_zp), 128, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_AVERAGE_POOL_S8, PARAM(average_pool_s8, out_zp), (uint32_t)-129, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_AVERAGE_POOL_S8, PARAM(average_pool_s8, mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_AVERAGE_POOL_S8, PARAM(average_pool_s8, shift), 62, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_AVERAGE_POOL_S8, PARAM(average_pool_s8, shift), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    WINDOW_CASES(MAX_POOL_S8, max_pool_s8),
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, reduced), (1U << 23) + 1, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, outer), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, inner), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, shift), 62, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, shift), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, divisor), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_SUM_S8, PARAM(reduce_sum_s8, divisor), (1U << 23) + 1, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_SOFTMAX_S8, PARAM(softmax_s8, depth), 65537, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_SOFTMAX_S8, PARAM(softmax_s8, rows), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_SOFTMAX_S8, PARAM(softmax_s8, mult), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_SOFTMAX_S8, PARAM(softmax_s8, shift), 17, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_SOFTMAX_S8, PARAM(softmax_s8, out_zp), 128, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_SOFTMAX_S8, PART(DTN_SOFTMAX_S8_TABLE, 2), (uint32_t)-4, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_SOFTMAX_S8, PART(DTN_SOFTMAX_S8_TABLE, 2), 0, false, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_COPY_S8, PARAM(copy_s8, dims), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_COPY_S8, PARAM(copy_s8, in_start), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_COPY_S8, PARAM(copy_s8, in_start), 0x7FFFFFFF, false, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_COPY_S8, PARAM(copy_s8, out_strides), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_COPY_S8, PARAM(copy_s8, dims) + 5, 60000, false, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_FILL_S8, PARAM(fill_s8, value), (uint32_t)-129, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_FILL_S8, PARAM(fill_s8, size), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_LUT_S8, PARAM(lut_s8, size), 1, true, DTN_REASON_OPERAND_SIZE},
    BROADCAST_CASES(EXTREMUM_S8, extremum_s8),
    {DTN_KERNEL_EXTREMUM_S8, PARAM(extremum_s8, maximum), 2, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_EXTREMUM_S8, PARAM(reduce_extremum_s8, reduced), (1U << 23) + 1, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_EXTREMUM_S8, PARAM(reduce_extremum_s8, outer), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_REDUCE_EXTREMUM_S8, PARAM(reduce_extremum_s8, inner), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_REDUCE_EXTREMUM_S8, PARAM(reduce_extremum_s8, maximum), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, depth), 32769, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, rows), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, batches), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, columns), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, x_zp), 128, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, y_zp), (uint32_t)-129, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, shift), 63, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_MATMUL_S8, PARAM(matmul_s8, act_max), 128, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, channels), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, out_w), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, in_h), 1, true, DTN_REASON_OPERAND_SIZE},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, start_h), 131073, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, start_w), (uint32_t)-131073, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, step_h), 0xFFFFFFFF, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, step_w), 131073, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, unit_h), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, unit_w), 131073, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_RESIZE_BILINEAR_S8, PARAM(resize_bilinear_s8, zero_point), 128, false, DTN_REASON_PARAMETER},
    BINARY_CASES(PRELU_S8, prelu_s8),
    {DTN_KERNEL_PRELU_S8, PARAM(prelu_s8, mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_PRELU_S8, PARAM(prelu_s8, alpha_mult), 0x80000000, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_PRELU_S8, PARAM(prelu_s8, alpha_shift), 0, false, DTN_REASON_PARAMETER},
    {DTN_KERNEL_PRELU_S8, PARAM(prelu_s8, out_zp), 128, false, DTN_REASON_PARAMETER},
};

/* The first call of `kind`, and its number among the commands. */
static uint32_t *find_call(const build_t *build, uint32_t kind, uint32_t *number)
{
    uint32_t *at = build->microcode + build->microcode[DTN_HEADER_FIRST_COMMAND] / DTN_WORD_BYTES;
    for (*number = 0; at[0] != (DTN_OPCODE_CALL | at[0] >> 16 << 16) || (at[1] & 0xFFFFU) != kind; (*number)++) {
        at += dtn_length(at[0]);
    }
    return at;
}

static void test_calls_refused(void)
{
    for (size_t i = 0; i < sizeof calls_refused / sizeof calls_refused[0]; i++) {
        const call_case_t *c = &calls_refused[i];
        for (uint64_t seed = 1; seed <= 10; seed++) {
            uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15);
            uint32_t number;
            char what[96];
            build_t build;
            build_start(&build);
            random_call(&build, c->kind, &state);
            build_constant(&build, NULL, 8192); /* so that an operand moved in the weights does not leave them */
            build_finish(&build);
            uint32_t *call = find_call(&build, c->kind, &number);
            uint32_t operands = call[1] >> 16 & 0xFFU;
            uint32_t *word = call + 3 + (c->word >= 1000 ? c->word - 1000 : 3 * operands + c->word);
            *word = c->add ? *word + c->value : c->value;
            build_seal(&build);
            snprintf(what, sizeof what, "kernel %u, word %u = 0x%X, seed %u", (unsigned)c->kind, (unsigned)c->word,
                     (unsigned)c->value, (unsigned)seed);
            check_error(prepare(&build), c->reason, number, what);
            build_free(&build);
        }
    }
}

/* A fully connected call with one requantization row, which a fetch or a copy puts into the region unless it is that of
 * the weights. Another fetch is under way during the call. */
static void start_rows(build_t *build, const int32_t *row, uint32_t region)
{
    dtn_fully_connected_s8_params_t p = {1, 16, 1, 1, 0, 0, -128, 127};
    build_start(build);
    build_ref_t rows = build_constant(build, row, 8);
    build_ref_t operands[] = {build_input(build, 16), build_constant(build, NULL, 16), build_constant(build, NULL, 4),
                              rows, build_output(build, 1)};
    if (region == DTN_REGION_PREFETCH) {
        build->prefetch_bytes = 32;
        build_fetch(build, 2, rows.offset, 16, 16);
        build_fetch(build, 0, rows.offset, 0, 16);
        build_wait(build, 0);
        operands[3].region = region;
        operands[3].offset = 0;
    }
    if (region == DTN_REGION_SCRATCH) {
        dtn_copy_s8_params_t copy = {0, {1, 1, 1, 1, 1, 8}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
        build_ref_t copied[] = {rows, build_scratch(build, 8)};
        build_call(build, DTN_KERNEL_COPY_S8, copied, &copy);
        operands[3] = copied[1];
    }
    build_call(build, DTN_KERNEL_FULLY_CONNECTED_S8, operands, &p);
    if (region == DTN_REGION_PREFETCH) {
        build_wait(build, 2);
    }
    build_finish(build);
}

static uint32_t waits[DTN_CHANNELS];

static void copy_now(void *dst, void *src, uint32_t size, uint32_t channel)
{
    (void)channel;
    memcpy(dst, src, size);
}

static void count_wait(uint32_t channel)
{
    waits[channel]++;
}

/* The error of a run for a row that prepare cannot read. */
static NeutronError late_row_error(const int32_t *row, uint32_t region)
{
    NeutronConfig hooks = {copy_now, count_wait};
    NeutronModelHandle handle = NULL;
    build_buffers_t buffers;
    build_t build;
    start_rows(&build, row, region);
    NeutronModelConfig config = build_config(&build);
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    memset(waits, 0, sizeof waits);
    build_buffers(&build, 1, &buffers);
    NeutronError error = neutronRunBlocking(handle, &buffers.config);
    CHECK_EQUAL(neutronDeinit(), ENONE); /* puts the default hooks back */
    build_buffers_free(&buffers);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_free(&build);
    return error;
}

static void test_rows(void)
{
    static const int32_t bad[][2] = {{-1, 30}, {1, 0}, {1, 63}};
    static const int32_t good[2] = {INT32_MAX, 62};
    build_t build;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        start_rows(&build, bad[i], DTN_REGION_WEIGHTS);
        check_error(prepare(&build), DTN_REASON_REQUANT_ROW, 0, "a row in the weights");
        build_free(&build);

        check_error(late_row_error(bad[i], DTN_REGION_PREFETCH), DTN_REASON_REQUANT_ROW, 3, "a prefetched row");
        CHECK(waits[0] == 1 && waits[2] == 1, "a copy may outlive a failed run");
        CHECK(waits[1] == 0 && waits[3] == 0, "a run waits for another's copies");
        check_error(late_row_error(bad[i], DTN_REGION_SCRATCH), DTN_REASON_REQUANT_ROW, 1, "a copied row");
    }
    check_error(late_row_error(good, DTN_REGION_PREFETCH), DTN_OK, 0, "a good prefetched row");
    check_error(late_row_error(good, DTN_REGION_SCRATCH), DTN_OK, 0, "a good copied row");
    start_rows(&build, good, DTN_REGION_WEIGHTS);
    CHECK_EQUAL(prepare(&build), ENONE);
    build_free(&build);
}

/* A copy of dims [2, 3] within one region or between two. */
static NeutronError copy_error(build_ref_t from, build_ref_t to, int32_t out_outer, int32_t out_inner)
{
    dtn_copy_s8_params_t p = {0, {1, 1, 1, 1, 2, 3}, {0, 0, 0, 0, 3, 1}, {0, 0, 0, 0, out_outer, out_inner}};
    build_ref_t operands[] = {from, to};
    build_t build;
    build_start(&build);
    build_input(&build, 64);
    build_output(&build, 64);
    build_scratch(&build, 64);
    build_call(&build, DTN_KERNEL_COPY_S8, operands, &p);
    build_finish(&build);
    NeutronError error = prepare(&build);
    build_free(&build);
    return error;
}

static void test_copies(void)
{
    build_ref_t in = {DTN_REGION_INPUT, 0, 1, 6};
    build_ref_t out = {DTN_REGION_OUTPUT, 0, 3, 20};
    build_ref_t low = {DTN_REGION_SCRATCH, 0, 0, 6};
    build_ref_t touching = {DTN_REGION_SCRATCH, 0, 6, 20};
    build_ref_t overlapping = {DTN_REGION_SCRATCH, 0, 5, 20};
    check_error(copy_error(in, out, 3, 1), DTN_OK, 0, "any offset");
    check_error(copy_error(in, out, 1, 2), DTN_OK, 0, "interleaved rows");
    check_error(copy_error(in, out, 1, 7), DTN_OK, 0, "transposed");
    check_error(copy_error(in, out, 2, 1), DTN_REASON_OVERWRITE, 0, "rows that overlap");
    check_error(copy_error(in, out, 0, 1), DTN_REASON_OVERWRITE, 0, "rows that coincide");
    check_error(copy_error(in, out, 4, 2), DTN_REASON_OVERWRITE, 0, "rows that meet in one byte");
    check_error(copy_error(in, out, 18, 1), DTN_REASON_OPERAND_SIZE, 0, "a reach one too far");
    check_error(copy_error(low, touching, 3, 1), DTN_OK, 0, "neighbours");
    check_error(copy_error(low, overlapping, 3, 1), DTN_REASON_OPERAND_OVERLAP, 0, "overlap");
    check_error(copy_error(low, low, 3, 1), DTN_REASON_OPERAND_OVERLAP, 0, "a copy onto itself");
}

/* A copy of dims [2, 3] out of six bytes, from byte `start` on. */
static NeutronError backward_error(int32_t start, int32_t in_outer, int32_t in_inner)
{
    dtn_copy_s8_params_t p = {start, {1, 1, 1, 1, 2, 3}, {0, 0, 0, 0, in_outer, in_inner}, {0, 0, 0, 0, 3, 1}};
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, 6), build_output(&build, 6)};
    build_call(&build, DTN_KERNEL_COPY_S8, operands, &p);
    build_finish(&build);
    NeutronError error = prepare(&build);
    build_free(&build);
    return error;
}

static void test_backward_copies(void)
{
    check_error(backward_error(5, -3, -1), DTN_OK, 0, "all backwards");
    check_error(backward_error(2, 3, -1), DTN_OK, 0, "columns backwards");
    check_error(backward_error(3, -3, 1), DTN_OK, 0, "rows backwards");
    check_error(backward_error(0, 0, 0), DTN_OK, 0, "one byte repeated");
    check_error(backward_error(4, -3, -1), DTN_REASON_OPERAND_SIZE, 0, "one byte before the operand");
    check_error(backward_error(3, 3, -1), DTN_REASON_OPERAND_SIZE, 0, "one byte behind the operand");
    check_error(backward_error(4, INT32_MIN, 1), DTN_REASON_OPERAND_SIZE, 0, "the longest stride back");
}

/* add with its output on input a, or b, which is read with these strides. */
static NeutronError add_in_place(bool on_b, int32_t outer, int32_t inner, uint32_t out_offset)
{
    dtn_add_s8_params_t p = {.dims = {1, 1, 1, 4, 8},
                             .a_strides = {0, 0, 0, on_b ? 0 : outer, on_b ? 1 : inner},
                             .b_strides = {0, 0, 0, on_b ? outer : 0, on_b ? inner : 1},
                             .a_mult = 1,
                             .b_mult = 1,
                             .shift = 1,
                             .act_max = 127};
    build_t build;
    build_start(&build);
    build_ref_t both = build_scratch(&build, 32);
    build_ref_t other = build_input(&build, 8);
    build_ref_t operands[] = {on_b ? other : both, on_b ? both : other, both};
    build_scratch(&build, 32);
    operands[2].offset += out_offset;
    build_call(&build, DTN_KERNEL_ADD_S8, operands, &p);
    build_finish(&build);
    NeutronError error = prepare(&build);
    build_free(&build);
    return error;
}

static void test_in_place(void)
{
    for (int on_b = 0; on_b < 2; on_b++) {
        check_error(add_in_place(on_b != 0, 8, 1, 0), DTN_OK, 0, "in place");
        check_error(add_in_place(on_b != 0, 0, 1, 0), DTN_REASON_OPERAND_OVERLAP, 0, "in place, repeated rows");
        check_error(add_in_place(on_b != 0, 1, 4, 0), DTN_REASON_OPERAND_OVERLAP, 0, "in place, transposed");
        check_error(add_in_place(on_b != 0, 8, 1, 16), DTN_REASON_OPERAND_OVERLAP, 0, "half in place");
        check_error(add_in_place(on_b != 0, 8, 1, 32), DTN_OK, 0, "adjacent");
    }
}

/* Words in a caller's buffer would be misaligned there. */
static void test_words_in_inputs(void)
{
    dtn_fully_connected_s8_params_t p = {1, 16, 1, 1, 0, 0, -128, 127};
    build_t build;
    build_start(&build);
    build_ref_t operands[] = {build_input(&build, 16), build_constant(&build, NULL, 16), build_input(&build, 4),
                              build_constant(&build, NULL, 8), build_output(&build, 1)};
    build_call(&build, DTN_KERNEL_FULLY_CONNECTED_S8, operands, &p);
    build_finish(&build);
    check_error(prepare(&build), DTN_REASON_OPERAND_ALIGNMENT, 0, "a bias in an input");
    build_free(&build);
}

int main(void)
{
    test_calls_refused();
    test_rows();
    test_copies();
    test_backward_copies();
    test_in_place();
    test_words_in_inputs();
    return test_result();
}
