/*
 * State: runs that carry it, resets, saved states, and the state that each fault of a run leaves. At last two threads
 * run one program, each with another state, also for the thread sanitizer.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bundle_builder.h"
#include "deuteron/crc32.h"
#include "deuteron/driver.h"
#include "deuteron/executor.h"
#include "deuteron/io.h"
#include "prepare_errors.h"
#include "test.h"

enum { COUNT = 4, BYTES = COUNT * sizeof(int32_t), THREADS = 2, RUNS = 200, SAVED_HEADER = 16 };
enum { SAVED = SAVED_HEADER + 2 * BYTES };

/* Steps of the program: next = x + sum, y = next + last, then sum = next and last = y. */
enum { STEP_NEXT, STEP_Y, STEP_BEGIN, STEP_SUM, STEP_LAST, STEP_END, STEPS };

/* The step with this number fails, counted from 0 over all runs; and the copy with this number. */
static struct {
    uint32_t step;
    uint32_t copy;
} failing = {UINT32_MAX, UINT32_MAX};

static bool fails(uint32_t *left)
{
    return *left != UINT32_MAX && (*left)-- == 0;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    if (fails(&failing.copy)) {
        return -1;
    }
    memcpy(dst, src, size);
    return 0;
}

/* True if all tensors of a call have `BYTES` bytes. */
static bool are_sized(const dtn_operator_call_t *call, uint32_t inputs)
{
    bool good = call->input_count == inputs && call->output_count == 1;
    for (uint32_t i = 0; good && i <= inputs; i++) {
        good = call->values[i].bytes == BYTES;
    }
    return good;
}

static int32_t add(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK && !are_sized(call, 2)) {
        return DTN_REASON_OPERATOR;
    }
    if (phase == DTN_PHASE_RUN) {
        if (fails(&failing.step)) {
            return DTN_REASON_OPERATOR;
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            ((int32_t *)call->values[2].data)[i] =
                ((const int32_t *)call->values[0].data)[i] + ((const int32_t *)call->values[1].data)[i];
        }
    }
    return DTN_OK;
}

static int32_t copy(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK && !are_sized(call, 1)) {
        return DTN_REASON_OPERATOR;
    }
    if (phase == DTN_PHASE_RUN) {
        if (fails(&failing.step)) {
            return DTN_REASON_OPERATOR;
        }
        memcpy(call->values[1].data, call->values[0].data, call->values[1].bytes);
    }
    return DTN_OK;
}

static const int32_t initial[COUNT] = {1, -2, 300, 40000};

/* In memory 1 the status, `last` (filled with 255) and `sum` (a constant). */
static void build(program_t *program)
{
    program_start(program);
    const uint32_t x = program_value(program, 0, BYTES, DTN_TYPE_S32);
    const uint32_t next = program_value(program, 0, BYTES, DTN_TYPE_S32);
    const uint32_t y = program_value(program, 0, BYTES, DTN_TYPE_S32);
    const uint32_t status = program_value(program, 1, DTN_STATE_STATUS_BYTES, DTN_TYPE_U8);
    const uint32_t last = program_value(program, 1, BYTES, DTN_TYPE_S32);
    const uint32_t sum = program_value(program, 1, BYTES, DTN_TYPE_S32);
    const uint32_t tensors = program_value(program, 1, 2 * BYTES, DTN_TYPE_U8);
    program->values[tensors].offset = program->values[last].offset;
    program->memory_bytes[1] -= 2 * BYTES;
    const uint32_t constant = program_constant(program, initial, BYTES, DTN_TYPE_U8);
    const uint32_t fill[] = {BYTES, 255};
    program_input(program, x);
    program_output(program, y);
    program_call(program, add, (uint32_t[]){x, sum, next}, 2, 1, NULL, 0);
    program_call(program, add, (uint32_t[]){next, last, y}, 2, 1, NULL, 0);
    program_call(program, dtn_op_state_begin, (uint32_t[]){constant, status, tensors}, 1, 2, fill, 2);
    program_operator(program, copy, next, sum, NULL, 0);
    program_operator(program, copy, y, last, NULL, 0);
    program_operator(program, dtn_op_state_end, tensors, status, NULL, 0);
    for (uint32_t i = STEP_BEGIN; i <= STEP_END; i++) {
        program->steps[i].kind = DTN_STEP_CHANGE;
    }
    program_finish(program);
}

/* The expected state, and the output of the last run. */
typedef struct {
    int32_t sum[COUNT];
    int32_t last[COUNT];
} expected_t;

static expected_t at_first(void)
{
    expected_t expected;
    memcpy(expected.sum, initial, BYTES);
    memset(expected.last, 255, BYTES);
    return expected;
}

static const int32_t *input_of(uint32_t number)
{
    static const int32_t inputs[][COUNT] = {{3, 5, -7, 9}, {1000, -4, 2, 0}, {-6, -6, 6, 6}};
    return inputs[number % (sizeof inputs / sizeof inputs[0])];
}

static void advance(expected_t *expected, uint32_t number)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        expected->sum[i] += input_of(number)[i];
        expected->last[i] += expected->sum[i];
    }
}

static NeutronError run(dtn_executor_t *executor, uint32_t number, int32_t *y)
{
    const void *inputs[] = {input_of(number)};
    void *outputs[] = {y};
    return dtn_executor_run(executor, inputs, outputs);
}

static void check_runs(dtn_executor_t *executor, expected_t *expected, const char *what)
{
    for (uint32_t number = 0; number < 3; number++) {
        int32_t y[COUNT];
        advance(expected, number);
        CHECK_EQUAL(run(executor, number, y), ENONE);
        CHECK(memcmp(y, expected->last, BYTES) == 0, "wrong output of run %u %s", (unsigned)number, what);
    }
}

static void test_runs_and_resets(void)
{
    program_t program;
    dtn_executor_t executor;
    build(&program);
    expected_t expected = at_first();
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    check_runs(&executor, &expected, "from the initial state");
    check_runs(&executor, &expected, "of more");
    CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
    expected = at_first();
    check_runs(&executor, &expected, "after a reset");
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    expected = at_first();
    check_runs(&executor, &expected, "after a second init");
    const void *inputs[] = {input_of(0)};
    CHECK_EQUAL(dtn_executor_start(&executor, inputs), ENONE);
    CHECK_EQUAL(dtn_executor_step(&executor), ENONE);
    CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
    CHECK_EQUAL(dtn_executor_steps_left(&executor), 0);
    expected = at_first();
    check_runs(&executor, &expected, "after a reset during a run");
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    check_error(dtn_executor_reset(&executor), DTN_REASON_NULL_POINTER, 0, "a reset after deinit");
    check_error(dtn_executor_reset(NULL), DTN_REASON_NULL_POINTER, 0, "a reset of nothing");
    program_free(&program);
}

/* The state that an unsuccessful run of input 1 has left is that before it, or after it once all steps are done. It is
 * lost if the change has stopped, as a reset of the processor does. */
static void check_left(dtn_executor_t *executor, const uint8_t *before, uint32_t done, const char *what)
{
    uint8_t saved[SAVED];
    expected_t expected = at_first();
    advance(&expected, 0);
    if (done > STEP_BEGIN && done < STEPS) {
        int32_t y[COUNT];
        check_error(dtn_executor_save_state(executor, saved, SAVED), DTN_REASON_STATE_LOST, STEP_BEGIN, what);
        check_error(run(executor, 1, y), DTN_REASON_STATE_LOST, STEP_BEGIN, what);
        check_error(run(executor, 1, y), DTN_REASON_STATE_LOST, STEP_BEGIN, what);
        CHECK_EQUAL(dtn_executor_load_state(executor, before, SAVED), ENONE);
    } else if (done == STEPS) {
        advance(&expected, 1);
    } else {
        CHECK_EQUAL(dtn_executor_save_state(executor, saved, SAVED), ENONE);
        CHECK(memcmp(saved, before, SAVED) == 0, "another state after %s", what);
    }
    check_runs(executor, &expected, what);
}

static bool go_on(void *user)
{
    uint32_t *left = user;
    return (*left)-- != 0;
}

/* Each step fails, each call of the progress function aborts, each copy fails. */
static void test_faults(void)
{
    program_t program;
    dtn_executor_t executor;
    build(&program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    enum { FAILING = 4, ABORTS = STEP_BEGIN }; /* nothing aborts a run after the change */
    for (uint32_t fault = 0; fault < FAILING + ABORTS + 2; fault++) {
        /* The steps that can fail by themselves, then the steps after which the run is aborted, then both copies. */
        static const uint32_t failing_steps[FAILING] = {STEP_NEXT, STEP_Y, STEP_SUM, STEP_LAST};
        char what[32];
        uint8_t before[SAVED];
        int32_t y[COUNT];
        snprintf(what, sizeof what, "fault %u", (unsigned)fault);
        CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
        CHECK_EQUAL(run(&executor, 0, y), ENONE);
        CHECK_EQUAL(dtn_executor_save_state(&executor, before, SAVED), ENONE);
        uint32_t done;
        if (fault < FAILING) {
            failing.step = fault;
            done = failing_steps[fault];
            check_error(run(&executor, 1, y), DTN_REASON_OPERATOR, done, what);
        } else if (fault < FAILING + ABORTS) {
            uint32_t left = fault - FAILING;
            done = left + 1;
            dtn_set_progress(go_on, &left);
            check_error(run(&executor, 1, y), DTN_REASON_ABORTED, 0, what);
            dtn_set_progress(NULL, NULL);
        } else {
            failing.copy = fault - FAILING - ABORTS;
            done = failing.copy * STEPS;
            check_error(run(&executor, 1, y), DTN_REASON_IO_COPY, failing.copy, what);
        }
        CHECK_EQUAL(executor.step, done);
        check_left(&executor, before, done, what);
    }
    program_free(&program);
}

/* A run in steps that another start abandons, at each step. */
static void test_abandoned_runs(void)
{
    program_t program;
    dtn_executor_t executor;
    build(&program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    for (uint32_t steps = 0; steps <= STEP_BEGIN + 1; steps++) { /* the last is the whole change */
        uint8_t before[SAVED];
        int32_t y[COUNT];
        const void *inputs[] = {input_of(1)};
        CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
        CHECK_EQUAL(run(&executor, 0, y), ENONE);
        CHECK_EQUAL(dtn_executor_save_state(&executor, before, SAVED), ENONE);
        CHECK_EQUAL(dtn_executor_start(&executor, inputs), ENONE);
        for (uint32_t i = 0; i < steps; i++) {
            CHECK_EQUAL(dtn_executor_step(&executor), ENONE);
        }
        uint32_t bytes = 0;
        const uint8_t *tensors = (const uint8_t *)dtn_executor_state(&executor, &bytes);
        CHECK_EQUAL(bytes, SAVED - SAVED_HEADER);
        CHECK((memcmp(tensors, before + SAVED_HEADER, bytes) == 0) == (steps <= STEP_BEGIN), "state after %u", steps);
        check_error(dtn_executor_save_state(&executor, before, SAVED), DTN_REASON_RUN_STATE, 0, "a save in a run");
        check_error(dtn_executor_load_state(&executor, before, SAVED), DTN_REASON_RUN_STATE, 0, "a load in a run");
        executor.is_stepped = false; /* as a start leaves it that fails */
        check_left(&executor, before, steps > STEP_BEGIN ? STEPS : steps, "an abandoned run");
    }
    program_free(&program);
}

static void test_saved_states(void)
{
    program_t program;
    program_t other;
    dtn_executor_t executor;
    dtn_executor_t second;
    uint8_t memory[SAVED + 1];
    uint8_t *saved = memory + 1; /* of any alignment */
    int32_t y[COUNT];
    build(&program);
    build(&other);
    CHECK_EQUAL(dtn_state_bytes(&program.bundle), SAVED);
    CHECK_EQUAL(dtn_state_bytes(NULL), 0);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    CHECK_EQUAL(dtn_executor_init(&second, &other.bundle, other.memories), ENONE);
    CHECK_EQUAL(run(&executor, 0, y), ENONE);
    CHECK_EQUAL(run(&executor, 1, y), ENONE);
    check_error(dtn_executor_save_state(NULL, saved, SAVED), DTN_REASON_NULL_POINTER, 0, "nothing to save");
    check_error(dtn_executor_save_state(&executor, NULL, SAVED), DTN_REASON_NULL_POINTER, 0, "nowhere to save");
    check_error(dtn_executor_save_state(&executor, saved, SAVED - 1), DTN_REASON_STATE_SIZE, 0, "too little memory");
    CHECK_EQUAL(dtn_executor_save_state(&executor, saved, SAVED), ENONE);
    check_error(dtn_executor_load_state(NULL, saved, SAVED), DTN_REASON_NULL_POINTER, 0, "nothing to load into");
    check_error(dtn_executor_load_state(&second, NULL, SAVED), DTN_REASON_NULL_POINTER, 0, "nothing to load");
    check_error(dtn_executor_load_state(&second, saved, SAVED - 1), DTN_REASON_STATE_SIZE, 0, "a part of a state");
    for (uint32_t at = 0; at < SAVED; at++) {
        saved[at] ^= 4U;
        check_error(dtn_executor_load_state(&second, saved, SAVED), DTN_REASON_STATE_SAVED, 0, "a damaged state");
        saved[at] ^= 4U;
    }
    expected_t expected = at_first();
    check_runs(&second, &expected, "after states that were refused");
    CHECK_EQUAL(dtn_executor_load_state(&second, saved, SAVED), ENONE);
    expected = at_first();
    advance(&expected, 0);
    advance(&expected, 1);
    check_runs(&second, &expected, "after another executor's state");
    program_free(&other);
    program_free(&program);
}

static void test_a_program_without_state(void)
{
    program_t program;
    dtn_executor_t executor;
    uint8_t saved[SAVED] = {0};
    program_start(&program);
    const uint32_t x = program_value(&program, 0, BYTES, DTN_TYPE_S32);
    const uint32_t y = program_value(&program, 0, BYTES, DTN_TYPE_S32);
    program_input(&program, x);
    program_output(&program, y);
    program_operator(&program, copy, x, y, NULL, 0);
    program_finish(&program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    CHECK_EQUAL(dtn_state_bytes(&program.bundle), 0);
    CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
    check_error(dtn_executor_save_state(&executor, saved, SAVED), DTN_REASON_STATE_SAVED, 0, "no state to save");
    check_error(dtn_executor_load_state(&executor, saved, SAVED), DTN_REASON_STATE_SAVED, 0, "no state to load");
    program_free(&program);
}

/* Damaged calls of the two operators: the word at an index of the tables is replaced. */
static void test_damaged_steps(void)
{
    static const struct {
        table_t table;
        uint32_t index;
        uint32_t word;
        dtn_reason_t reason;
        uint32_t detail;
    } cases[] = {
        {TABLE_WORDS, 9, BYTES + 1, DTN_REASON_OPERATOR, STEP_BEGIN}, /* more filled than is there */
        {TABLE_WORDS, 9, 2 * BYTES + 1, DTN_REASON_OPERATOR, STEP_BEGIN},
        {TABLE_WORDS, 9, BYTES - 1, DTN_REASON_OPERATOR, STEP_BEGIN},          /* less */
        {TABLE_WORDS, 10, 256, DTN_REASON_OPERATOR, STEP_BEGIN},               /* no byte */
        {TABLE_WORDS, 7, 4, DTN_REASON_BUNDLE_STEP, STEP_BEGIN},               /* a status in the tensors */
        {TABLE_STEPS, STEP_BEGIN * 6 + 5, 1, DTN_REASON_OPERATOR, STEP_BEGIN}, /* half a pair */
        {TABLE_STEPS, STEP_BEGIN * 6 + 4, 1, DTN_REASON_OPERATOR, STEP_BEGIN}, /* one output */
        {TABLE_STEPS, STEP_END * 6 + 4, 0, DTN_REASON_OPERATOR, STEP_END},
        {TABLE_VALUES, 3 * 4 + 2, 12, DTN_REASON_OPERATOR, STEP_BEGIN}, /* a short status */
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_t program;
        dtn_executor_t executor;
        uint32_t words;
        char what[32];
        build(&program);
        uint32_t *table = program_table(&program, cases[i].table, &words);
        CHECK(cases[i].index < words, "case %u is outside its table", (unsigned)i);
        table[cases[i].index] = cases[i].word;
        program_seal(&program);
        snprintf(what, sizeof what, "damaged step %u", (unsigned)i);
        check_error(dtn_executor_init(&executor, &program.bundle, program.memories), cases[i].reason, cases[i].detail,
                    what);
        program_free(&program);
    }
}

/* Words of any table replaced at random: the program is refused, or runs, is saved, loaded and reset in its memories.
 */
static void test_random_damage(void)
{
    uint64_t random = 37;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        program_t program;
        dtn_executor_t executor;
        uint32_t words;
        build(&program);
        uint32_t *table = program_table(&program, (table_t)test_between(&random, 0, TABLES - 1), &words);
        uint32_t *word = &table[test_between(&random, 0, (int32_t)words - 1)];
        *word = test_between(&random, 0, 3) == 0 ? (uint32_t)test_random(&random)
                                                 : *word + (uint32_t)test_between(&random, -20, 20);
        program_seal(&program);
        if (dtn_executor_init(&executor, &program.bundle, program.memories) == ENONE) {
            uint32_t bytes = dtn_state_bytes(&program.bundle);
            uint8_t *saved = (uint8_t *)build_alloc(bytes + 1);
            (void)dtn_executor_run(&executor, NULL, NULL);
            if (dtn_executor_save_state(&executor, saved, bytes) == ENONE) {
                CHECK_EQUAL(dtn_executor_load_state(&executor, saved, bytes), ENONE);
            }
            CHECK_EQUAL(dtn_executor_reset(&executor), ENONE);
            free(saved);
            taken++;
        }
        program_free(&program);
    }
    CHECK(taken > 50, "only %u programs were taken", (unsigned)taken);
}

/* A thread that streams through its own executor, and resets it now and then. */
typedef struct {
    dtn_executor_t executor;
    uint32_t first;
    uint32_t wrong;
} streaming_t;

static void *stream(void *argument)
{
    streaming_t *own = (streaming_t *)argument;
    expected_t expected = at_first();
    for (uint32_t number = own->first; number < own->first + RUNS; number++) {
        int32_t y[COUNT];
        if (number % 50 == 49) {
            own->wrong += dtn_executor_reset(&own->executor) != ENONE;
            expected = at_first();
        }
        advance(&expected, number);
        own->wrong += run(&own->executor, number, y) != ENONE || memcmp(y, expected.last, BYTES) != 0;
    }
    return NULL;
}

static void test_two_threads(void)
{
    program_t program;
    dtn_memory_t memories[THREADS][PROGRAM_MEMORIES];
    streaming_t streams[THREADS];
    pthread_t threads[THREADS];
    build(&program);
    for (uint32_t i = 0; i < THREADS; i++) {
        for (uint32_t k = 0; k < PROGRAM_MEMORIES; k++) {
            memories[i][k] = program.memories[k];
            memories[i][k].data = build_alloc(program.memories[k].bytes);
        }
        streams[i] = (streaming_t){.first = i};
        CHECK_EQUAL(dtn_executor_init(&streams[i].executor, &program.bundle, memories[i]), ENONE);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, stream, &streams[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK_EQUAL(streams[i].wrong, 0);
        for (uint32_t k = 0; k < PROGRAM_MEMORIES; k++) {
            free(memories[i][k].data);
        }
    }
    program_free(&program);
}

int main(void)
{
    test_runs_and_resets();
    test_faults();
    test_abandoned_runs();
    test_saved_states();
    test_a_program_without_state();
    test_damaged_steps();
    test_random_damage();
    test_two_threads();
    return test_result();
}
