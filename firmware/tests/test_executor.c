/* The executor runs what bundles allow: programs of few and many values, in place, in shared memory, with events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deuteron/driver.h"
#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

static void test_arguments(void)
{
    dtn_executor_t executor;
    small_t small;
    small_start(&small);
    dtn_bundle_t *bundle = &small.program.bundle;
    check_error(dtn_executor_init(NULL, bundle, small.program.memories), DTN_REASON_NULL_POINTER, 0, "no executor");
    check_error(dtn_executor_init(&executor, NULL, small.program.memories), DTN_REASON_NULL_POINTER, 0, "no bundle");
    check_error(dtn_executor_init(&executor, bundle, NULL), DTN_REASON_NULL_POINTER, 0, "no memories");
    check_error(dtn_executor_run(NULL, NULL, NULL), DTN_REASON_NULL_POINTER, 0, "run of nothing");
    check_error(dtn_executor_deinit(NULL), DTN_REASON_NULL_POINTER, 0, "deinit of nothing");
    CHECK(dtn_executor_input(NULL, 0) == NULL && dtn_executor_output(NULL, 0) == NULL, "a value of nothing");
    CHECK(dtn_executor_input(&executor, 0) == NULL, "an input after a failed init");
    CHECK_EQUAL(dtn_executor_init(&executor, bundle, small.program.memories), ENONE);
    CHECK(dtn_executor_input(&executor, 2) == NULL && dtn_executor_output(&executor, 3) == NULL, "one too many");
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    check_error(dtn_executor_deinit(&executor), DTN_REASON_NULL_POINTER, 0, "deinit twice");
    check_error(dtn_executor_run(&executor, NULL, NULL), DTN_REASON_NULL_POINTER, 0, "run after deinit");
    small_free(&small);
}

static void test_runs(void)
{
    dtn_executor_t executor;
    small_buffers_t buffers;
    small_t small;
    small_start(&small);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        small_fill(&buffers, seed);
        CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
        CHECK(small_is_right(&buffers), "wrong outputs with seed %u", (unsigned)seed);
        CHECK_EQUAL(executor.step, SMALL_STEPS);
    }
    /* The same in place: inputs written to the program's memory, outputs read there. */
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(dtn_executor_input(&executor, i), buffers.inputs[i], i == 0 ? SMALL_COUNT * sizeof(float) : SMALL_COUNT);
    }
    CHECK_EQUAL(dtn_executor_run(&executor, NULL, NULL), ENONE);
    memset(buffers.outputs[0], 0, SMALL_COUNT * sizeof(float));
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(buffers.outputs[i], dtn_executor_output(&executor, i),
               i == 0 ? SMALL_COUNT * sizeof(float) : SMALL_COUNT);
    }
    CHECK(small_is_right(&buffers), "wrong outputs in place");
    /* One input copied, one in place; one output copied. */
    small_fill(&buffers, 99);
    const void *inputs[] = {NULL, buffers.inputs[1]};
    void *outputs[] = {NULL, buffers.outputs[1], NULL};
    memcpy(dtn_executor_input(&executor, 0), buffers.inputs[0], SMALL_COUNT * sizeof(float));
    CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
    CHECK(*(const uint8_t *)buffers.outputs[0] == 0x5A, "an unwanted output was copied");
    memcpy(buffers.outputs[0], dtn_executor_output(&executor, 0), SMALL_COUNT * sizeof(float));
    memcpy(buffers.outputs[2], dtn_executor_output(&executor, 2), SMALL_COUNT);
    CHECK(small_is_right(&buffers), "wrong outputs with some in place");
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
}

static void test_events(void)
{
    static const uint32_t kinds[][2] = {
        {DTN_EVENT_COPY_IN, 0},  {DTN_EVENT_COPY_IN, 1},  {DTN_EVENT_STEP, 0}, {DTN_EVENT_STEP, 1},
        {DTN_EVENT_STEP, 2},     {DTN_EVENT_STEP, 3},     {DTN_EVENT_STEP, 4}, {DTN_EVENT_COPY_OUT, 0},
        {DTN_EVENT_COPY_OUT, 1}, {DTN_EVENT_COPY_OUT, 2},
    };
    enum { EVENTS = sizeof kinds / sizeof kinds[0] };
    dtn_event_t events[EVENTS + 1];
    dtn_executor_t executor;
    small_buffers_t buffers;
    small_t small;
    small_start(&small);
    small_fill(&buffers, 1);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK_EQUAL(executor.event_count, 0);
    executor.events = events;
    for (uint32_t capacity = 0; capacity <= EVENTS + 1; capacity++) {
        uint32_t expected = capacity < EVENTS ? capacity : EVENTS;
        executor.event_capacity = capacity;
        memset(events, 0xEE, sizeof events);
        CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
        CHECK_EQUAL(executor.event_count, expected);
        for (uint32_t i = 0; i < expected; i++) {
            CHECK(events[i].kind == kinds[i][0] && events[i].index == kinds[i][1], "event %u is another", (unsigned)i);
            CHECK(events[i].stop - events[i].start < 1000000000U, "event %u ends before it starts", (unsigned)i);
            CHECK(i == 0 || events[i].start - events[i - 1].stop < 1000000000U, "event %u overlaps", (unsigned)i);
        }
        CHECK_EQUAL(events[expected].kind, 0xEEEEEEEE);
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
}

/* Two programs in the same memories but the one that holds their contexts. */
static void test_shared_memories(void)
{
    enum { PROGRAMS = 2 };
    small_t small[PROGRAMS];
    dtn_executor_t executors[PROGRAMS];
    for (int i = 0; i < PROGRAMS; i++) {
        small_start(&small[i]);
        small[i].program.memories[0] = small[0].program.memories[0];
        small[i].program.memories[1] = small[0].program.memories[1];
        CHECK_EQUAL(dtn_executor_init(&executors[i], &small[i].program.bundle, small[i].program.memories), ENONE);
    }
    for (uint64_t seed = 1; seed <= 10; seed++) {
        small_buffers_t buffers;
        small_fill(&buffers, seed);
        CHECK_EQUAL(dtn_executor_run(&executors[seed % PROGRAMS], buffers.inputs, buffers.outputs), ENONE);
        CHECK(small_is_right(&buffers), "wrong outputs with seed %u", (unsigned)seed);
    }
    CHECK_EQUAL(dtn_executor_deinit(&executors[0]), ENONE);
    CHECK_EQUAL(dtn_executor_deinit(&executors[1]), ENONE);
    small_free(&small[0]);
    small_free(&small[1]);
}

/* As many tensors as a delegate may have: their addresses are in the working memory, not on the stack. */
static void test_most_tensors(void)
{
    dtn_lut_s8_params_t lut = {1};
    uint32_t values[2 * DTN_MAX_TENSORS];
    uint8_t table[DTN_LUT_BYTES];
    uint8_t bytes[DTN_MAX_TENSORS];
    const void *inputs[DTN_MAX_TENSORS];
    void *outputs[DTN_MAX_TENSORS];
    dtn_executor_t executor;
    build_t build;
    program_t *program = (program_t *)build_alloc(sizeof *program);
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(i ^ 0x80U); /* of x it makes x */
    }
    build_start(&build);
    program_start(program);
    build_ref_t constant = build_constant(&build, table, sizeof table);
    for (uint32_t i = 0; i < DTN_MAX_TENSORS; i++) {
        build_ref_t operands[] = {build_input(&build, 1), constant, build_output(&build, 1)};
        build_call(&build, DTN_KERNEL_LUT_S8, operands, &lut);
        values[i] = program_value(program, 0, 1, DTN_TYPE_S8);
        program_input(program, values[i]);
        bytes[i] = (uint8_t)(7 * i);
        inputs[i] = &bytes[i];
    }
    build_finish(&build);
    uint8_t found[DTN_MAX_TENSORS] = {0};
    for (uint32_t i = 0; i < DTN_MAX_TENSORS; i++) {
        values[DTN_MAX_TENSORS + i] = program_value(program, 1, 1, DTN_TYPE_S8);
        program_output(program, values[DTN_MAX_TENSORS + i]);
        outputs[i] = &found[i];
    }
    program_delegate(program, &build, values);
    program_finish(program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
    CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
    CHECK(memcmp(found, bytes, sizeof bytes) == 0, "an output is not its input");
    program_free(program);
    free(program);
    build_free(&build);
}

/* A program without delegates works in no memory; one without steps hands its input on. */
static void test_few_steps(void)
{
    const uint32_t params[] = {program_bits(1.0F), 0, 0, 255};
    for (int steps = 0; steps < 2; steps++) {
        float x[] = {0.5F, 300.0F};
        uint8_t found[sizeof x] = {0};
        const void *inputs[] = {x};
        void *outputs[] = {found};
        dtn_executor_t executor;
        program_t *program = (program_t *)build_alloc(sizeof *program);
        program_start(program);
        program_input(program, program_value(program, 0, sizeof x, DTN_TYPE_F32));
        program_value(program, 0, 2, DTN_TYPE_U8);
        program_output(program, (uint32_t)steps);
        if (steps != 0) {
            program_operator(program, dtn_op_quantize_per_tensor, 0, 1, params, 4);
        }
        program_finish(program);
        program->memories[PROGRAM_WORKING].data = NULL;
        CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        CHECK(steps == 0 ? memcmp(found, x, sizeof x) == 0 : found[0] == 0 && found[1] == 255, "wrong outputs");
        CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
        program_free(program);
        free(program);
    }
}

/* A context that the application has overwritten is reported, and the others are ended all the same. */
static void test_deinit_ends_all(void)
{
    dtn_executor_t executor;
    dtn_model_info_t info;
    small_t small;
    small_start(&small);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    uint8_t *contexts = (uint8_t *)small.program.memories[PROGRAM_WORKING].data;
    CHECK_EQUAL(dtn_model_info(contexts + DTN_CONTEXT_BYTES, &info), ENONE);
    memset(contexts, 0, DTN_CONTEXT_BYTES);
    check_error(dtn_executor_deinit(&executor), DTN_REASON_BAD_HANDLE, 0, "an overwritten context");
    check_error(dtn_model_info(contexts + DTN_CONTEXT_BYTES, &info), DTN_REASON_BAD_HANDLE, 0, "the context after it");
    small_free(&small);
}

static void run_operator(dtn_operator_t function, dtn_tensor_t input, dtn_tensor_t output, const uint32_t *params,
                         uint32_t param_count)
{
    dtn_operator_call_t call = {params, param_count, 1, 1, {input, output}};
    CHECK_EQUAL(function(&call, DTN_PHASE_CHECK), DTN_OK);
    CHECK_EQUAL(function(&call, DTN_PHASE_RUN), DTN_OK);
}

/* The contract's limit: from 2^63 on a quotient, as NaN, gives the minimum. */
static void test_quantize_at_the_limit(void)
{
    float x[] = {9223371487098961920.0F,
                 9223372036854775808.0F,
                 -9223372036854775808.0F,
                 -9223373136366403584.0F,
                 INFINITY,
                 -INFINITY,
                 NAN,
                 0.0F};
    const int8_t expected[] = {100, -100, -100, -100, -100, -100, -100, 3};
    const uint32_t params[] = {program_bits(1.0F), 3, (uint32_t)-100, 100};
    int8_t found[sizeof expected];
    dtn_tensor_t input = {x, sizeof x, DTN_TYPE_F32};
    dtn_tensor_t output = {found, sizeof found, DTN_TYPE_S8};
    run_operator(dtn_op_quantize_per_tensor, input, output, params, 4);
    for (size_t i = 0; i < sizeof expected; i++) {
        CHECK(found[i] == expected[i], "number %u gives %d, not %d", (unsigned)i, found[i], expected[i]);
    }
}

static void test_transpose_of_batches(void)
{
    uint8_t from[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
    const uint8_t expected[] = {0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15};
    const uint32_t params[] = {2, 2, 3};
    uint8_t to[sizeof from];
    dtn_tensor_t input = {from, sizeof from, DTN_TYPE_U8};
    dtn_tensor_t output = {to, sizeof to, DTN_TYPE_U8};
    run_operator(dtn_op_transpose, input, output, params, 3);
    CHECK(memcmp(to, expected, sizeof to) == 0, "two batches are transposed wrongly");
}

static bool count(void *user)
{
    (*(uint32_t *)user)++;
    return true;
}

/* After each step, and after each command of a delegate: five of the first, one of the second. */
static void test_progress(void)
{
    uint32_t calls = 0;
    dtn_executor_t executor;
    small_t small;
    small_buffers_t buffers;
    small_start(&small);
    small_fill(&buffers, 1);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    dtn_set_progress(count, &calls);
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    dtn_set_progress(NULL, NULL);
    CHECK_EQUAL(calls, SMALL_STEPS + 6);
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
}

int main(void)
{
    test_arguments();
    test_runs();
    test_events();
    test_shared_memories();
    test_most_tensors();
    test_few_steps();
    test_deinit_ends_all();
    test_quantize_at_the_limit();
    test_transpose_of_batches();
    test_progress();
    return test_result();
}
