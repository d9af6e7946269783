#include "small_bundle.h"

#include <string.h>

#include "test.h"

enum { ROWS = 3, COLUMNS = 4, IN_ZERO = -3, OUT_ZERO = 5 };

static const int8_t ceiling[SMALL_COUNT] = {100, 50, 0, -50, 127, 127, 20, 20, -128, 127, 90, 80};

static build_ref_t add_table(build_t *build)
{
    int8_t table[DTN_LUT_BYTES];
    for (int i = 0; i < (int)sizeof table; i++) {
        table[i] = (int8_t)(127 - i);
    }
    return build_constant(build, table, sizeof table);
}

static void add_extremum(build_t *build, build_ref_t a, build_ref_t b, build_ref_t output, bool maximum)
{
    dtn_extremum_s8_params_t params = {{1, 1, 1, 1, SMALL_COUNT}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, maximum};
    build_ref_t operands[] = {a, b, output};
    build_call(build, DTN_KERNEL_EXTREMUM_S8, operands, &params);
}

static void build_first(build_t *build)
{
    dtn_lut_s8_params_t lut = {SMALL_COUNT};
    build_start(build);
    build->profiling = true;
    build_ref_t table = add_table(build);
    build_ref_t fetched = {DTN_REGION_PREFETCH, 0, 0, DTN_LUT_BYTES};
    build_ref_t x = build_input(build, SMALL_COUNT);
    build_ref_t limit = build_input(build, SMALL_COUNT);
    build_ref_t work = build_scratch(build, SMALL_COUNT);
    build_ref_t through_fetched[] = {x, fetched, work};
    build_ref_t high = build_output(build, SMALL_COUNT);
    build_ref_t through_table[] = {limit, table, build_output(build, SMALL_COUNT)};
    build->prefetch_bytes = DTN_LUT_BYTES;
    build_fetch(build, 2, table.offset, 0, DTN_LUT_BYTES);
    build_wait(build, 2);
    build_call(build, DTN_KERNEL_LUT_S8, through_fetched, &lut);
    add_extremum(build, work, limit, high, true);
    build_call(build, DTN_KERNEL_LUT_S8, through_table, &lut);
    build_finish(build);
}

static void build_second(build_t *build)
{
    build_start(build);
    build_ref_t high = build_input(build, SMALL_COUNT);
    build_ref_t limit = build_input(build, SMALL_COUNT);
    add_extremum(build, high, limit, build_output(build, SMALL_COUNT), false);
    build_finish(build);
}

static void add_values(program_t *program)
{
    program_value(program, 0, SMALL_COUNT * sizeof(float), DTN_TYPE_F32);
    program_value(program, 1, SMALL_COUNT, DTN_TYPE_S8);
    program_value(program, 1, SMALL_COUNT, DTN_TYPE_S8);
    program_value(program, 0, SMALL_COUNT, DTN_TYPE_S8);
    program_value(program, 0, SMALL_COUNT, DTN_TYPE_S8);
    program_value(program, 1, SMALL_COUNT, DTN_TYPE_S8);
    program_constant(program, ceiling, sizeof ceiling, DTN_TYPE_S8);
    program_value(program, 1, SMALL_COUNT, DTN_TYPE_S8);
    program_value(program, 0, SMALL_COUNT * sizeof(float), DTN_TYPE_F32);
    program_input(program, SMALL_X);
    program_input(program, SMALL_LIMIT);
    program_output(program, SMALL_Y);
    program_output(program, SMALL_TWICE);
    program_output(program, SMALL_CEILING);
}

void small_start(small_t *small)
{
    static const uint32_t first[] = {SMALL_TRANSPOSED, SMALL_LIMIT, SMALL_HIGH, SMALL_TWICE};
    static const uint32_t second[] = {SMALL_HIGH, SMALL_CEILING, SMALL_LOW};
    const uint32_t quantize[] = {program_bits(0.5F), (uint32_t)IN_ZERO, (uint32_t)INT8_MIN, INT8_MAX};
    const uint32_t transpose[] = {1, ROWS, COLUMNS};
    const uint32_t dequantize[] = {program_bits(0.25F), OUT_ZERO};
    program_t *program = &small->program;
    build_first(&small->first);
    build_second(&small->second);
    program_start(program);
    add_values(program);
    program_operator(program, dtn_op_quantize_per_tensor, SMALL_X, SMALL_QUANTIZED, quantize, 4);
    program_operator(program, dtn_op_transpose, SMALL_QUANTIZED, SMALL_TRANSPOSED, transpose, 3);
    program_delegate(program, &small->first, first);
    program_delegate(program, &small->second, second);
    program_operator(program, dtn_op_dequantize_per_tensor, SMALL_LOW, SMALL_Y, dequantize, 2);
    program_finish(program);
}

void small_free(small_t *small)
{
    program_free(&small->program);
    build_free(&small->first);
    build_free(&small->second);
}

void small_fill(small_buffers_t *buffers, uint64_t seed)
{
    uint64_t state = seed | 1U;
    memset(buffers, 0x5A, sizeof *buffers);
    for (int i = 0; i < 2; i++) {
        buffers->inputs[i] = buffers->memory[i] + 1;
    }
    for (int i = 0; i < 3; i++) {
        buffers->outputs[i] = buffers->memory[2 + i] + 1;
    }
    for (int i = 0; i < SMALL_COUNT; i++) {
        float x = (float)test_between(&state, -600, 600) / 8.0F;
        memcpy(buffers->memory[0] + 1 + (size_t)i * sizeof x, &x, sizeof x);
        buffers->memory[1][1 + i] = (uint8_t)test_random(&state);
    }
}

static int quantized(const small_buffers_t *buffers, int index)
{
    float x;
    memcpy(&x, buffers->memory[0] + 1 + (size_t)index * sizeof x, sizeof x);
    /* x is a number of eighths, and x / 0.5 one of quarters: rounded without floating point, ties to even. */
    int eighths = (int)(x * 8.0F);
    int whole = eighths >= 0 ? eighths / 4 : -((3 - eighths) / 4);
    int rest = eighths - 4 * whole;
    whole += rest > 2 || (rest == 2 && whole % 2 != 0);
    int value = whole + IN_ZERO;
    return value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value;
}

bool small_is_right(const small_buffers_t *buffers)
{
    bool right = memcmp(buffers->outputs[2], ceiling, sizeof ceiling) == 0;
    for (int i = 0; i < SMALL_COUNT; i++) {
        int x = quantized(buffers, i % ROWS * COLUMNS + i / ROWS);
        int limit = ((const int8_t *)buffers->inputs[1])[i];
        int high = -1 - x > limit ? -1 - x : limit;
        int low = high < ceiling[i] ? high : ceiling[i];
        float y;
        memcpy(&y, (const uint8_t *)buffers->outputs[0] + (size_t)i * sizeof y, sizeof y);
        right = right && (int)(y * 4.0F) == low - OUT_ZERO && ((const int8_t *)buffers->outputs[1])[i] == -1 - limit;
    }
    return right;
}
