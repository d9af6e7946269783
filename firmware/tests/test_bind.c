/* Inputs and outputs in buffers of the caller's: nothing is copied, and what cannot be right is refused. */
#include <stdlib.h>
#include <string.h>

#include "deuteron/io.h"
#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

enum { FRAMES = 2, FLOATS = SMALL_COUNT * sizeof(float), BUFFER_BYTES = 64 };

static uint32_t copies;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    copies++;
    memcpy(dst, src, size);
    return 0;
}

typedef struct {
    uint8_t bytes[BUFFER_BYTES];
} __attribute__((aligned(16))) buffer_t;

static void spoil(const program_t *program)
{
    for (uint32_t i = 0; i < PROGRAM_WORKING; i++) {
        memset(program->memories[i].data, 0xA5, program->memories[i].bytes);
    }
}

/* A camera that fills two frames by turns, and a display that shows two. */
static void test_frames(void)
{
    static buffer_t x[FRAMES], limit, y[FRAMES], twice;
    dtn_binding_t bound_x, bound_limit, bound_y, bound_twice;
    dtn_executor_t executor;
    small_buffers_t buffers;
    small_t small;
    small_start(&small);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 1, &bound_limit, limit.bytes, SMALL_COUNT), ENONE);
    CHECK_EQUAL(dtn_executor_bind_output(&executor, 1, &bound_twice, twice.bytes, sizeof twice), ENONE);
    for (uint32_t run = 0; run < 6; run++) {
        const buffer_t *frame = &x[run % FRAMES];
        uint8_t *shown = y[run % FRAMES].bytes;
        CHECK_EQUAL(dtn_executor_bind_input(&executor, 0, &bound_x, x[run % FRAMES].bytes, FLOATS), ENONE);
        CHECK_EQUAL(dtn_executor_bind_output(&executor, 0, &bound_y, shown, FLOATS), ENONE);
        CHECK(dtn_executor_input(&executor, 0) == frame->bytes, "the input is elsewhere");
        CHECK(dtn_executor_output(&executor, 0) == shown, "the output is elsewhere");
        small_fill(&buffers, run + 1);
        spoil(&small.program);
        memset(y, 0x5A, sizeof y);
        memcpy(x[run % FRAMES].bytes, buffers.inputs[0], FLOATS);
        memset(x[(run + 1) % FRAMES].bytes, 0xEE, FLOATS); /* the camera fills it meanwhile */
        memcpy(limit.bytes, buffers.inputs[1], SMALL_COUNT);
        copies = 0;
        if (run < 3) {
            CHECK_EQUAL(dtn_executor_run(&executor, NULL, NULL), ENONE);
            CHECK_EQUAL(copies, 0);
        } else {
            void *outputs[] = {NULL, buffers.outputs[1], NULL}; /* copied from the buffer */
            CHECK_EQUAL(dtn_executor_run(&executor, NULL, outputs), ENONE);
            CHECK_EQUAL(copies, 1);
        }
        CHECK(memcmp(frame->bytes, buffers.inputs[0], FLOATS) == 0, "the run wrote to its input");
        CHECK_EQUAL(y[(run + 1) % FRAMES].bytes[0], 0x5A);
        CHECK_EQUAL(shown[FLOATS], 0x5A);
        memcpy(buffers.outputs[0], shown, FLOATS);
        memcpy(buffers.outputs[1], twice.bytes, SMALL_COUNT);
        memcpy(buffers.outputs[2], dtn_executor_output(&executor, 2), SMALL_COUNT);
        CHECK(small_is_right(&buffers), "wrong outputs of run %u", (unsigned)run);
    }
    /* An input that is given to a run is copied to the buffer. */
    small_fill(&buffers, 50);
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK(small_is_right(&buffers), "wrong outputs that were copied from bound buffers");
    CHECK(memcmp(limit.bytes, buffers.inputs[1], SMALL_COUNT) == 0, "an input was copied elsewhere");
    /* And back to the program's memory. */
    const dtn_binding_t *all[] = {&bound_x, &bound_limit, &bound_y, &bound_twice, &bound_x};
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK_EQUAL(dtn_executor_unbind(&executor, all[i]), ENONE);
    }
    memset(y, 0x5A, sizeof y);
    small_fill(&buffers, 51);
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK(small_is_right(&buffers), "wrong outputs without bindings");
    CHECK_EQUAL(y[0].bytes[0] + y[1].bytes[0], 2 * 0x5A);
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
}

/* One binding for one thing: for another it leaves the one before, and another binding takes its place. */
static void test_bindings_move(void)
{
    static buffer_t first, second;
    dtn_binding_t one, other;
    dtn_executor_t executor;
    small_t small;
    small_start(&small);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    void *own[] = {dtn_executor_input(&executor, 0), dtn_executor_input(&executor, 1)};
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 0, &one, first.bytes, BUFFER_BYTES), ENONE);
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 0, &other, second.bytes, BUFFER_BYTES), ENONE);
    CHECK(dtn_executor_input(&executor, 0) == second.bytes, "the second binding has no effect");
    CHECK_EQUAL(dtn_executor_unbind(&executor, &one), ENONE);
    CHECK(dtn_executor_input(&executor, 0) == second.bytes, "the first binding was in force still");
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 1, &one, first.bytes, BUFFER_BYTES), ENONE);
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 1, &other, second.bytes, BUFFER_BYTES), ENONE);
    CHECK(dtn_executor_input(&executor, 0) == own[0], "a binding is of two inputs");
    CHECK(dtn_executor_input(&executor, 1) == second.bytes, "the binding did not move");
    CHECK_EQUAL(dtn_executor_unbind(&executor, &other), ENONE);
    CHECK(dtn_executor_input(&executor, 1) == own[1], "the input is bound still");
    CHECK(executor.bindings == NULL, "a binding is left over");
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
}

static void test_refusals(void)
{
    static buffer_t buffer, other;
    dtn_binding_t binding, second;
    dtn_executor_t executor;
    small_t small;
    small_start(&small);
    const program_t *program = &small.program;
    CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
    uint8_t *memory0 = program->memories[0].data;
    uint8_t *working = program->memories[PROGRAM_WORKING].data;
    const struct {
        bool is_output;
        uint32_t index;
        void *data;
        size_t bytes;
        dtn_reason_t reason;
        uint32_t detail;
        const char *what;
    } cases[] = {
        {false, 2, buffer.bytes, BUFFER_BYTES, DTN_REASON_TENSOR_INDEX, 2, "input 2 of two"},
        {true, 3, buffer.bytes, BUFFER_BYTES, DTN_REASON_TENSOR_INDEX, 5, "output 3 of three"},
        {false, 0, NULL, BUFFER_BYTES, DTN_REASON_NULL_POINTER, 0, "no buffer"},
        {false, 0, buffer.bytes + 8, FLOATS, DTN_REASON_MISALIGNED, 0, "a buffer at a multiple of 8"},
        {false, 0, buffer.bytes, FLOATS - 1, DTN_REASON_BUFFER_SIZE, 0, "an input of too few bytes"},
        {true, 0, buffer.bytes, FLOATS - 1, DTN_REASON_BUFFER_SIZE, 2, "an output of too few bytes"},
        {false, 0, memory0, FLOATS, DTN_REASON_BUFFER_OVERLAP, 0, "the program's own memory"},
        {true, 1, memory0 + 16, BUFFER_BYTES, DTN_REASON_BUFFER_OVERLAP, 3, "the middle of a memory"},
        {true, 1, working, BUFFER_BYTES, DTN_REASON_BUFFER_OVERLAP, 3, "the contexts"},
        {true, 1, small.first.weights, BUFFER_BYTES, DTN_REASON_BUFFER_OVERLAP, 3, "weights"},
        {true, 2, buffer.bytes, BUFFER_BYTES, DTN_REASON_BUFFER_SHARED, 4, "a constant"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_error(cases[i].is_output
                        ? dtn_executor_bind_output(&executor, cases[i].index, &binding, cases[i].data, cases[i].bytes)
                        : dtn_executor_bind_input(&executor, cases[i].index, &binding, cases[i].data, cases[i].bytes),
                    cases[i].reason, cases[i].detail, cases[i].what);
        CHECK(executor.bindings == NULL, "%s: bound", cases[i].what);
    }
    check_error(dtn_executor_bind_input(NULL, 0, &binding, buffer.bytes, BUFFER_BYTES), DTN_REASON_NULL_POINTER, 0,
                "nothing");
    check_error(dtn_executor_bind_output(NULL, 0, &binding, buffer.bytes, BUFFER_BYTES), DTN_REASON_NULL_POINTER, 0,
                "nothing");
    check_error(dtn_executor_bind_input(&executor, 0, NULL, buffer.bytes, BUFFER_BYTES), DTN_REASON_NULL_POINTER, 0,
                "none");
    check_error(dtn_executor_unbind(NULL, &binding), DTN_REASON_NULL_POINTER, 0, "unbound of nothing");
    check_error(dtn_executor_unbind(&executor, NULL), DTN_REASON_NULL_POINTER, 0, "unbound of none");
    /* Inputs may share a buffer, which is never written; an output may not, and earlier bindings stay. */
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 0, &binding, buffer.bytes, BUFFER_BYTES), ENONE);
    CHECK_EQUAL(dtn_executor_bind_input(&executor, 1, &second, buffer.bytes, BUFFER_BYTES), ENONE);
    CHECK_EQUAL(dtn_executor_unbind(&executor, &second), ENONE);
    check_error(dtn_executor_bind_output(&executor, 1, &second, buffer.bytes + 32, 32), DTN_REASON_BUFFER_OVERLAP, 3,
                "an output in a bound input");
    check_error(dtn_executor_bind_input(&executor, 0, &binding, memory0, BUFFER_BYTES), DTN_REASON_BUFFER_OVERLAP, 0,
                "a second buffer that is none");
    CHECK(dtn_executor_input(&executor, 0) == buffer.bytes, "a refused buffer has replaced another");
    /* Its own buffer is no obstacle. */
    CHECK_EQUAL(dtn_executor_bind_output(&executor, 0, &second, other.bytes, BUFFER_BYTES), ENONE);
    CHECK_EQUAL(dtn_executor_bind_output(&executor, 0, &second, other.bytes, BUFFER_BYTES), ENONE);
    /* Not during a run in steps. */
    CHECK_EQUAL(dtn_executor_start(&executor, NULL), ENONE);
    check_error(dtn_executor_bind_input(&executor, 0, &binding, buffer.bytes, BUFFER_BYTES), DTN_REASON_RUN_STATE, 0,
                "in steps");
    check_error(dtn_executor_unbind(&executor, &binding), DTN_REASON_RUN_STATE, 0, "unbound in steps");
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    check_error(dtn_executor_bind_input(&executor, 0, &binding, buffer.bytes, BUFFER_BYTES), DTN_REASON_NULL_POINTER, 0,
                "ended");
    small_free(&small);
}

/* The positions of values, in units of 16 bytes, and the copies between them. */
enum { MOST = 4, UNIT_BYTES = 16, NO = -1 };
typedef struct {
    const char *what;
    struct {
        uint32_t memory, unit, units;
    } values[MOST];
    int steps[MOST][2]; /* from, to; the first without ends them */
    int inputs[2];
    int output;
    dtn_reason_t as_input; /* of binding input 0 */
    dtn_reason_t as_output;
} plan_t;

static const plan_t plans[] = {
    {"a value where the input was",
     {{0, 0, 1}, {0, 1, 1}, {0, 0, 1}},
     {{0, 1}, {1, 2}, {NO}},
     {0, NO},
     2,
     DTN_OK,
     DTN_OK},
    {"an input read by a slice",
     {{0, 0, 2}, {0, 1, 1}, {0, 2, 1}},
     {{1, 2}, {NO}},
     {0, NO},
     2,
     DTN_REASON_BUFFER_SHARED,
     DTN_OK},
    {"an output written by slices",
     {{0, 0, 1}, {0, 1, 2}, {0, 1, 1}, {0, 2, 1}},
     {{0, 2}, {0, 3}, {NO}},
     {0, NO},
     1,
     DTN_OK,
     DTN_REASON_BUFFER_SHARED},
    {"an output read by another name",
     {{0, 0, 1}, {0, 1, 1}, {0, 1, 1}, {0, 2, 1}},
     {{0, 1}, {2, 3}, {NO}},
     {0, NO},
     1,
     DTN_OK,
     DTN_REASON_BUFFER_SHARED},
    {"an input that a step changes",
     {{0, 0, 1}, {0, 1, 1}},
     {{0, 1}, {1, 0}, {NO}},
     {0, NO},
     0,
     DTN_REASON_BUFFER_SHARED,
     DTN_OK},
    {"an input changed by another name, then read",
     {{0, 0, 1}, {0, 1, 1}, {0, 0, 1}, {0, 2, 1}},
     {{0, 1}, {1, 2}, {0, 3}, {NO}},
     {0, NO},
     3,
     DTN_REASON_BUFFER_SHARED,
     DTN_OK},
    {"a view of what replaced the input",
     {{0, 0, 1}, {0, 1, 1}, {0, 0, 1}, {0, 0, 1}},
     {{0, 1}, {1, 2}, {NO}},
     {0, NO},
     3,
     DTN_OK,
     DTN_REASON_BUFFER_SHARED},
    {"an input that is the output", {{0, 0, 1}}, {{NO}}, {0, NO}, 0, DTN_OK, DTN_OK},
    {"an output that nothing writes", {{0, 0, 1}, {0, 1, 1}}, {{NO}}, {0, NO}, 1, DTN_OK, DTN_REASON_BUFFER_SHARED},
    {"inputs that overlap",
     {{0, 0, 2}, {0, 1, 1}, {0, 2, 1}},
     {{1, 2}, {NO}},
     {0, 1},
     2,
     DTN_REASON_BUFFER_SHARED,
     DTN_OK},
    {"values in the working memory",
     {{2, 0, 1}, {0, 0, 1}, {2, 1, 1}},
     {{0, 1}, {1, 2}, {NO}},
     {0, NO},
     2,
     DTN_REASON_BUFFER_SHARED,
     DTN_REASON_BUFFER_SHARED},
    {"the same place in two memories", {{0, 0, 1}, {1, 0, 1}}, {{0, 1}, {NO}}, {0, NO}, 1, DTN_OK, DTN_OK},
};

static void test_plan(const plan_t *plan)
{
    static buffer_t in, out;
    dtn_binding_t input, output;
    dtn_executor_t executor;
    program_t *program = (program_t *)build_alloc(sizeof *program);
    program_start(program);
    for (uint32_t i = 0; i < MOST && plan->values[i].units != 0; i++) {
        const uint32_t bytes = plan->values[i].units * UNIT_BYTES;
        const uint32_t value = program_value(program, plan->values[i].memory, bytes, DTN_TYPE_S8);
        program->values[value].offset = plan->values[i].unit * UNIT_BYTES;
    }
    for (uint32_t i = 0; plan->steps[i][0] != NO; i++) {
        const uint32_t params[] = {1, 1, UNIT_BYTES};
        program_operator(program, dtn_op_transpose, (uint32_t)plan->steps[i][0], (uint32_t)plan->steps[i][1], params,
                         3);
    }
    for (uint32_t i = 0; i < 2 && plan->inputs[i] != NO; i++) {
        program_input(program, (uint32_t)plan->inputs[i]);
    }
    program_output(program, (uint32_t)plan->output);
    program_finish(program);
    const uint32_t inputs = program->bundle.input_count;
    for (int both = 0; both < 2; both++) {
        memset(&in, 3, sizeof in);
        memset(&out, 4, sizeof out);
        CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
        spoil(program);
        check_error(dtn_executor_bind_input(&executor, 0, &input, in.bytes, sizeof in), plan->as_input, 0, plan->what);
        if (both != 0 && plan->inputs[0] != plan->output) {
            check_error(dtn_executor_bind_output(&executor, 0, &output, out.bytes, sizeof out), plan->as_output,
                        plan->as_output == DTN_OK ? 0 : inputs, plan->what);
        }
        for (uint32_t i = 0; i < inputs; i++) {
            memset(dtn_executor_input(&executor, i), 7, UNIT_BYTES);
            memset((uint8_t *)dtn_executor_input(&executor, i) + program->values[plan->inputs[i]].bytes - UNIT_BYTES, 7,
                   UNIT_BYTES);
        }
        CHECK_EQUAL(dtn_executor_run(&executor, NULL, NULL), ENONE);
        const uint8_t *found = dtn_executor_output(&executor, 0);
        const bool is_written = plan->as_output == DTN_OK || plan->steps[0][0] != NO;
        CHECK(!is_written || (found[0] == 7 && found[UNIT_BYTES - 1] == 7), "%s: wrong output, both %d", plan->what,
              both);
        CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    }
    CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
    check_error(dtn_executor_bind_output(&executor, 0, &output, out.bytes, sizeof out), plan->as_output,
                plan->as_output == DTN_OK ? 0 : inputs, plan->what);
    program_free(program);
    free(program);
}

enum { VALUES = 7, STEPS = 8, UNITS = 6, MAX_UNITS = 3, PROGRAMS = 20000 };

/* A program of random copies between random places; false when it is none. */
static bool random_program(program_t *program, uint64_t *state)
{
    program_start(program);
    for (uint32_t i = 0; i < VALUES; i++) {
        const uint32_t units = (uint32_t)test_between(state, 1, MAX_UNITS);
        const uint32_t value = program_value(program, 0, units * UNIT_BYTES, DTN_TYPE_S8);
        program->values[value].offset = (uint32_t)test_between(state, 0, UNITS - (int32_t)units) * UNIT_BYTES;
    }
    const uint32_t steps = (uint32_t)test_between(state, 1, STEPS);
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t from = (uint32_t)test_between(state, 0, VALUES - 1);
        const uint32_t to = (uint32_t)test_between(state, 0, VALUES - 1);
        const dtn_value_t *a = &program->values[from];
        const dtn_value_t *b = &program->values[to];
        if (a->bytes != b->bytes || (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)) {
            continue;
        }
        const uint32_t params[] = {1, 1, a->bytes};
        program_operator(program, dtn_op_transpose, from, to, params, 3);
    }
    program_input(program, (uint32_t)test_between(state, 0, VALUES - 1));
    program_input(program, (uint32_t)test_between(state, 0, VALUES - 1));
    program_output(program, (uint32_t)test_between(state, 0, VALUES - 1));
    program_output(program, (uint32_t)test_between(state, 0, VALUES - 1));
    const bool is_one = program->bundle.step_count != 0 && program->inputs[0] != program->inputs[1];
    program_finish(program);
    return is_one;
}

typedef struct {
    uint8_t outputs[2][MAX_UNITS * UNIT_BYTES];
} results_t;

/* Runs a program whose memory has random content, and inputs in the order of the calls. */
static void run_random(program_t *program, dtn_executor_t *executor, uint64_t seed, results_t *results)
{
    uint8_t *memory = program->memories[0].data;
    void *outputs[] = {results->outputs[0], results->outputs[1]};
    memset(results, 0, sizeof *results);
    for (uint32_t i = 0; i < program->memories[0].bytes; i++) {
        memory[i] = (uint8_t)test_random(&seed);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *input = dtn_executor_input(executor, i);
        for (uint32_t j = 0; j < program->values[program->inputs[i]].bytes; j++) {
            input[j] = (uint8_t)test_random(&seed);
        }
    }
    CHECK_EQUAL(dtn_executor_run(executor, NULL, outputs), ENONE);
}

/* Whatever may be bound, with all else that may: the outputs are those of the program's own memory. */
static void test_random_programs(void)
{
    static buffer_t buffers[4];
    uint32_t bound_inputs = 0;
    uint32_t bound_outputs = 0;
    uint32_t programs = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        uint64_t state = seed;
        dtn_binding_t bindings[4];
        dtn_executor_t executor;
        results_t expected, found;
        program_t *program = (program_t *)build_alloc(sizeof *program);
        if (random_program(program, &state)) {
            programs++;
            CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
            run_random(program, &executor, seed, &expected);
            const uint64_t first = test_random(&state) % 4;
            for (uint64_t i = first; i < first + 4; i++) {
                const uint32_t at = i % 2;
                const bool in = i % 4 < 2;
                buffer_t *buffer = &buffers[i % 4];
                dtn_binding_t *binding = &bindings[i % 4];
                NeutronError error = in ? dtn_executor_bind_input(&executor, at, binding, buffer, BUFFER_BYTES)
                                        : dtn_executor_bind_output(&executor, at, binding, buffer, BUFFER_BYTES);
                CHECK(error == ENONE || DTN_ERROR_REASON(error) == DTN_REASON_BUFFER_SHARED, "seed %u: error %x",
                      (unsigned)seed, (unsigned)error);
                bound_inputs += in && error == ENONE;
                bound_outputs += !in && error == ENONE;
            }
            run_random(program, &executor, seed, &found);
            CHECK(memcmp(&expected, &found, sizeof found) == 0, "seed %u: other outputs", (unsigned)seed);
        }
        program_free(program);
        free(program);
    }
    CHECK(bound_inputs > programs / 4 && bound_outputs > programs / 4, "%u inputs and %u outputs of %u programs",
          (unsigned)bound_inputs, (unsigned)bound_outputs, (unsigned)programs);
}

int main(void)
{
    test_random_programs();
    test_frames();
    test_bindings_move();
    test_refusals();
    for (uint32_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        test_plan(&plans[i]);
    }
    return test_result();
}
