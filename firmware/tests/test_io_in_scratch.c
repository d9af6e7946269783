/* Inputs and outputs with places in scratch: which places a header may have, which calls, and runs with tensors there
 * or elsewhere. */
#include <string.h>

#include "bundle_builder.h"
#include "deuteron/driver.h"
#include "deuteron/executor.h"
#include "prepare_errors.h"
#include "test.h"

enum { COUNT = 20, SCRATCH = 64, SECOND = 32, PREFETCH = 32 };

static const uint32_t x_in_scratch[] = {0, SECOND};

/* Inverts an input by way of scratch: its bytes lie where the result will. With all memories or with scratch alone. */
static void build_inverter(build_t *build, const uint32_t *places, bool has_all)
{
    uint8_t table[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {COUNT};
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)~i; /* of the byte whose first bit is the other */
    }
    build_start(build);
    build->places = places;
    build->profiling = has_all;
    build->prefetch_bytes = has_all ? PREFETCH : 0;
    build_ref_t inverting = build_constant(build, table, sizeof table);
    build_ref_t x = build_input(build, COUNT);
    build_ref_t y = build_output(build, COUNT);
    build_ref_t work[] = {build_scratch(build, COUNT), build_scratch(build, COUNT)};
    build_ref_t once[] = {x, inverting, work[1]};
    build_ref_t twice[] = {work[1], inverting, work[0]};
    build_ref_t thrice[] = {work[0], inverting, y};
    build_call(build, DTN_KERNEL_LUT_S8, once, &lut);
    build_call(build, DTN_KERNEL_LUT_S8, twice, &lut);
    build_call(build, DTN_KERNEL_LUT_S8, thrice, &lut);
    build_finish(build);
}

static void test_header(void)
{
    static const struct {
        uint32_t places[2];
        uint32_t version; /* of the format, 0 for the newest */
        dtn_reason_t reason;
        const char *what;
    } cases[] = {
        {{0, SECOND}, 0, DTN_OK, "two places"},
        {{SECOND, 0}, 0, DTN_OK, "the other way round"},
        {{DTN_ELSEWHERE, SECOND}, 0, DTN_OK, "an output alone"},
        {{DTN_ELSEWHERE, DTN_ELSEWHERE}, 0, DTN_OK, "no place at all"},
        {{0, SECOND}, DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MINOR_OF_PLACES, DTN_OK, "the first version"},
        {{0, SECOND},
         DTN_MICROCODE_VERSION_MAJOR << 16 | (DTN_MINOR_OF_PLACES - 1),
         DTN_REASON_FLAGS,
         "a version before"},
        {{8, SECOND}, 0, DTN_REASON_PLACES, "a place that is not aligned"},
        {{SCRATCH - 16, 0}, 0, DTN_REASON_PLACES, "an input that leaves scratch"},
        {{0, SCRATCH - 16}, 0, DTN_REASON_PLACES, "an output that leaves scratch"},
        {{0, SCRATCH}, 0, DTN_REASON_PLACES, "an output behind scratch"},
        {{0, SCRATCH + 16}, 0, DTN_REASON_PLACES, "an output beyond scratch"},
        {{0xFFFFFFF0, 0}, 0, DTN_REASON_PLACES, "the largest place"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build_t build;
        build_inverter(&build, cases[i].places, false);
        if (cases[i].version != 0) {
            build.microcode[DTN_HEADER_VERSION] = cases[i].version;
            build_seal(&build);
        }
        check_error(prepare(&build), cases[i].reason, 0, cases[i].what);
        build_free(&build);
    }
}

/* The driver takes tensors wherever they are: in their places, which it then overwrites, or elsewhere. */
static void test_runs(void)
{
    for (uint32_t in_place = 0; in_place < 4; in_place++) {
        build_t build;
        build_buffers_t buffers;
        uint8_t expected[COUNT];
        build_inverter(&build, x_in_scratch, false);
        build_buffers(&build, 7, &buffers);
        uint8_t *scratch = (uint8_t *)buffers.outputs[1];
        for (uint32_t i = 0; i < COUNT; i++) {
            expected[i] = ((const uint8_t *)buffers.inputs[0])[i] ^ 0x7FU;
        }
        if ((in_place & 1U) != 0) {
            memcpy(scratch, buffers.inputs[0], COUNT);
            buffers.inputs[0] = scratch;
        }
        if ((in_place & 2U) != 0) {
            buffers.outputs[0] = scratch + SECOND;
        }
        NeutronModelConfig config = build_config(&build);
        NeutronModelHandle handle = NULL;
        CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
        CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
        CHECK(memcmp(buffers.outputs[0], expected, COUNT) == 0, "wrong output with tensors in place: %u", in_place);
        CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
        build_buffers_free(&buffers);
        build_free(&build);
    }
}

/* Bytes in scratch next to the places of a call's input and output, and those that may not be there. */
enum { ROWS = 16, ROW_BYTES = ROWS * DTN_REQUANT_ROW_BYTES };

/* A matrix product into 16 features, whose rows of factors are fetched to scratch from 0 on. Its output has a place. */
static void build_product(build_t *build, const uint32_t *places)
{
    dtn_fully_connected_s8_params_t product = {1, 1, ROWS, ROWS, 0, 0, -128, 127};
    int32_t factors[2 * ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        factors[2 * i] = 1 << 30;
        factors[2 * i + 1] = 30;
    }
    build_start(build);
    build->places = places;
    build_ref_t weights = build_constant(build, NULL, ROWS);
    build_ref_t bias = build_constant(build, NULL, ROWS * sizeof(int32_t));
    build_ref_t rows = build_constant(build, factors, sizeof factors);
    build_ref_t x = build_input(build, 1);
    build_ref_t y = build_output(build, ROWS);
    build_ref_t fetched = build_scratch(build, sizeof factors);
    build_scratch(build, SCRATCH);
    build_fetch_to_scratch(build, 0, rows.offset, fetched.offset, fetched.bytes);
    build_wait(build, 0);
    build_ref_t operands[] = {x, weights, bias, fetched, y};
    build_call(build, DTN_KERNEL_FULLY_CONNECTED_S8, operands, &product);
    build_finish(build);
}

/* A table over all of an input or a part of it, with 16 bytes of scratch on their way meanwhile. */
static void build_table(build_t *build, const uint32_t *places, uint32_t first, uint32_t count, uint32_t target)
{
    dtn_lut_s8_params_t lut = {(int32_t)count};
    build_start(build);
    build->places = places;
    build_ref_t table = build_constant(build, NULL, DTN_LUT_BYTES);
    build_ref_t x = build_input(build, COUNT);
    build_ref_t y = build_output(build, COUNT);
    x.offset = first;
    x.bytes = count;
    y.bytes = count;
    build_scratch(build, 2 * SCRATCH);
    build_fetch_to_scratch(build, 0, 0, target, 16);
    build_ref_t operands[] = {x, table, y};
    build_call(build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_wait(build, 0);
    build_finish(build);
}

/* Operands are apart, and away from fetches that are not waited for, where they lie in scratch. */
static void test_operands(void)
{
    static const struct {
        uint32_t places[2];
        dtn_reason_t reason;
        const char *what;
    } products[] = {
        {{DTN_ELSEWHERE, 0}, DTN_REASON_OPERAND_OVERLAP, "an output over rows that the call reads"},
        {{DTN_ELSEWHERE, ROW_BYTES - 16}, DTN_REASON_OPERAND_OVERLAP, "an output over the last rows"},
        {{DTN_ELSEWHERE, ROW_BYTES}, DTN_OK, "an output behind the rows"},
        {{16, DTN_ELSEWHERE}, DTN_OK, "an input over rows: both are read"},
        {{DTN_ELSEWHERE, DTN_ELSEWHERE}, DTN_OK, "an output elsewhere"},
    };
    static const struct {
        uint32_t places[2];
        uint32_t first; /* bytes of the input that the call reads */
        uint32_t count;
        uint32_t target; /* of the fetch */
        dtn_reason_t reason;
        const char *what;
    } tables[] = {
        {{32, 32}, 0, COUNT, 0, DTN_OK, "an output exactly on its input"},
        {{32, 48}, 0, COUNT, 0, DTN_REASON_OPERAND_OVERLAP, "an output half on its input"},
        {{32, 32}, 1, COUNT - 1, 0, DTN_REASON_OPERAND_OVERLAP, "an output a byte before its input"},
        {{32, 48}, 16, 4, 0, DTN_OK, "an output exactly on a part of its input"},
        {{32, 48}, 0, 16, 0, DTN_OK, "an output behind a part of its input"},
        {{32, 64}, 0, COUNT, 32, DTN_REASON_IN_FLIGHT, "an input on its way"},
        {{32, 64}, 0, COUNT, 48, DTN_REASON_IN_FLIGHT, "an input's last bytes on their way"},
        {{32, 64}, 0, 16, 48, DTN_OK, "bytes of an input on their way that are not read"},
        {{32, 64}, 0, COUNT, 64, DTN_REASON_IN_FLIGHT, "an output on its way"},
        {{32, DTN_ELSEWHERE}, 0, COUNT, 64, DTN_OK, "an output elsewhere"},
        {{DTN_ELSEWHERE, 64}, 0, COUNT, 32, DTN_OK, "an input elsewhere"},
    };
    build_t build;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        build_product(&build, products[i].places);
        check_error(prepare(&build), products[i].reason, products[i].reason != DTN_OK ? 2 : 0, products[i].what);
        build_free(&build);
    }
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        build_table(&build, tables[i].places, tables[i].first, tables[i].count, tables[i].target);
        check_error(prepare(&build), tables[i].reason, tables[i].reason != DTN_OK ? 1 : 0, tables[i].what);
        build_free(&build);
    }
}

/* The working memory behind its contexts: the four addresses of input, output, scratch and profile; scratch; a record
 * for each of four commands; the prefetch area; and bytes that the partition does not need. */
enum {
    AT_SCRATCH = 32,
    AT_RECORDS = AT_SCRATCH + SCRATCH,
    AT_PREFETCH = AT_RECORDS + 4 * DTN_PROFILE_RECORD_BYTES,
    AT_REST = AT_PREFETCH + PREFETCH,
    REST = 32,
    AT_ELSEWHERE = -1 /* in another memory */
};

/* Puts a value into the working memory, at this offset behind its contexts. */
static void put(program_t *program, uint32_t value, uint32_t offset)
{
    program->values[value].memory = PROGRAM_WORKING;
    program->values[value].offset = DTN_CONTEXT_BYTES + offset;
}

/* A bundle whose input and output, values 0 and 1, are in the working memory at these offsets behind its contexts. */
static void start(program_t *program, build_t *build, const uint32_t *places, uint32_t input, uint32_t output)
{
    build_inverter(build, places, true);
    program_start(program);
    const uint32_t values[] = {program_value(program, 0, COUNT, DTN_TYPE_S8),
                               program_value(program, 0, COUNT, DTN_TYPE_S8)};
    if (input != (uint32_t)AT_ELSEWHERE) {
        put(program, values[0], input);
    }
    put(program, values[1], output);
    program_input(program, values[0]);
    program_output(program, values[1]);
    program_delegate(program, build, values);
    program->memory_bytes[PROGRAM_WORKING] += REST;
}

/* Finishes a bundle, checks it, and runs it if that is to be without an error. */
static void finish(program_t *program, build_t *build, dtn_reason_t reason, uint32_t detail, const char *what)
{
    dtn_executor_t executor;
    uint8_t x[COUNT];
    uint8_t y[COUNT];
    program_finish(program);
    NeutronError error = dtn_executor_init(&executor, &program->bundle, program->memories);
    check_error(error, reason, detail, what);
    for (uint8_t run = 0; run < 2 && error == ENONE; run++) {
        const void *inputs[] = {x, NULL};
        void *outputs[] = {y, NULL};
        memset(x, 40 + run, sizeof x);
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        for (uint32_t at = 0; at < COUNT; at++) {
            CHECK_EQUAL(y[at], x[at] ^ 0x7FU);
        }
    }
    program_free(program);
    build_free(build);
}

static void test_bundle(void)
{
    static const uint32_t in_one_place[] = {0, 0};
    static const uint32_t y_in_scratch[] = {DTN_ELSEWHERE, SECOND};
    static const uint32_t nothing_in_scratch[] = {DTN_ELSEWHERE, DTN_ELSEWHERE};
    static const struct {
        const uint32_t *places;
        uint32_t input;
        uint32_t output;
        dtn_reason_t reason;
        uint32_t detail;
        const char *what;
    } cases[] = {
        {x_in_scratch, AT_SCRATCH, AT_SCRATCH + SECOND, DTN_OK, 0, "both in their places"},
        {in_one_place, AT_SCRATCH, AT_SCRATCH, DTN_OK, 0, "an output over an input that was read"},
        {x_in_scratch, AT_SCRATCH, AT_SCRATCH, DTN_REASON_DELEGATE, 0, "an output at the input's place"},
        {y_in_scratch, (uint32_t)AT_ELSEWHERE, AT_SCRATCH + SECOND, DTN_OK, 0, "an output alone"},
        {x_in_scratch, AT_SCRATCH, AT_REST, DTN_REASON_DELEGATE, 0, "an output behind what the partition needs"},
        {y_in_scratch, AT_REST, AT_SCRATCH + SECOND, DTN_REASON_DELEGATE, 0,
         "an input behind what the partition needs"},
        {x_in_scratch, 0, AT_SCRATCH + SECOND, DTN_REASON_DELEGATE, 0, "an input over the addresses"},
        {x_in_scratch, AT_SCRATCH, 0, DTN_REASON_DELEGATE, 0, "an output over the addresses"},
        {x_in_scratch, AT_SCRATCH + SECOND, AT_SCRATCH, DTN_REASON_DELEGATE, 0, "each at the other's place"},
        {x_in_scratch, AT_SCRATCH, AT_SCRATCH + SECOND + 16, DTN_REASON_DELEGATE, 0, "an output next to its place"},
        {y_in_scratch, AT_SCRATCH, AT_SCRATCH + SECOND, DTN_REASON_DELEGATE, 0, "an input that has no place"},
        {nothing_in_scratch, (uint32_t)AT_ELSEWHERE, AT_SCRATCH, DTN_REASON_DELEGATE, 0, "an output that has no place"},
        {NULL, (uint32_t)AT_ELSEWHERE, AT_SCRATCH, DTN_REASON_DELEGATE, 0, "an output where there are no places"},
        {x_in_scratch, AT_RECORDS, AT_SCRATCH + SECOND, DTN_REASON_DELEGATE, 0, "an input over the profile"},
        {x_in_scratch, AT_SCRATCH, AT_RECORDS + 16, DTN_REASON_DELEGATE, 0, "an output over the profile"},
        {x_in_scratch, AT_PREFETCH, AT_SCRATCH + SECOND, DTN_REASON_DELEGATE, 0, "an input over the prefetch area"},
        {x_in_scratch, AT_SCRATCH, AT_REST - 16, DTN_REASON_DELEGATE, 0, "an output over the prefetch area's end"},
        {NULL, (uint32_t)AT_ELSEWHERE, AT_PREFETCH, DTN_REASON_DELEGATE, 0,
         "an output over the prefetch area, without places"},
        {x_in_scratch, 0U - 16, AT_SCRATCH + SECOND, DTN_REASON_BUNDLE_VALUE, 0, "an input over a context"},
        {x_in_scratch, AT_SCRATCH, 0U - DTN_CONTEXT_BYTES, DTN_REASON_BUNDLE_VALUE, 1, "an output over a context"},
        {x_in_scratch, AT_SCRATCH, AT_REST + REST, DTN_REASON_BUNDLE_VALUE, 1, "an output behind the memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_t program;
        build_t build;
        start(&program, &build, cases[i].places, cases[i].input, cases[i].output);
        finish(&program, &build, cases[i].reason, cases[i].detail, cases[i].what);
    }
}

int main(void)
{
    test_header();
    test_runs();
    test_operands();
    test_bundle();
    return test_result();
}
