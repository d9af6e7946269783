/* Runs in steps, and runs that end early: each next run is right. */
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/io.h"
#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

/* The copy with this number, counted from 0, is refused with a status. */
static struct {
    int32_t status;
    uint32_t left;
} refused;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    if (refused.status != 0 && refused.left-- == 0) {
        int32_t status = refused.status;
        refused.status = 0;
        return status;
    }
    memcpy(dst, src, size);
    return 0;
}

typedef struct {
    small_t small;
    small_buffers_t buffers;
    dtn_executor_t executor;
} fixture_t;

static void start(fixture_t *fixture)
{
    small_start(&fixture->small);
    small_fill(&fixture->buffers, 1);
    const program_t *program = &fixture->small.program;
    CHECK_EQUAL(dtn_executor_init(&fixture->executor, &program->bundle, program->memories), ENONE);
}

static void end(fixture_t *fixture)
{
    CHECK_EQUAL(dtn_executor_deinit(&fixture->executor), ENONE);
    small_free(&fixture->small);
}

static void check_next(fixture_t *fixture, uint64_t seed, const char *what)
{
    small_fill(&fixture->buffers, seed);
    CHECK_EQUAL(dtn_executor_run(&fixture->executor, fixture->buffers.inputs, fixture->buffers.outputs), ENONE);
    CHECK(small_is_right(&fixture->buffers), "wrong outputs after %s", what);
}

static NeutronError run_in_steps(fixture_t *fixture)
{
    NeutronError error = dtn_executor_start(&fixture->executor, fixture->buffers.inputs);
    while (error == ENONE && dtn_executor_steps_left(&fixture->executor) != 0) {
        error = dtn_executor_step(&fixture->executor);
    }
    return error == ENONE ? dtn_executor_finish(&fixture->executor, fixture->buffers.outputs) : error;
}

static void test_steps(void)
{
    fixture_t fixture;
    dtn_event_t events[SMALL_STEPS + SMALL_COPIES];
    start(&fixture);
    fixture.executor.events = events;
    fixture.executor.event_capacity = sizeof events / sizeof events[0];
    for (uint64_t seed = 1; seed < 10; seed++) {
        small_fill(&fixture.buffers, seed);
        CHECK_EQUAL(run_in_steps(&fixture), ENONE);
        CHECK(small_is_right(&fixture.buffers), "wrong outputs in steps with seed %u", (unsigned)seed);
        CHECK_EQUAL(fixture.executor.step, SMALL_STEPS);
        CHECK_EQUAL(fixture.executor.event_count, SMALL_STEPS + SMALL_COPIES);
        check_next(&fixture, seed + 100, "a run in steps");
    }
    CHECK_EQUAL(dtn_executor_start(&fixture.executor, fixture.buffers.inputs), ENONE);
    for (uint32_t step = 0; step < SMALL_STEPS; step++) {
        CHECK_EQUAL(fixture.executor.step, step);
        CHECK_EQUAL(dtn_executor_steps_left(&fixture.executor), SMALL_STEPS - step);
        CHECK_EQUAL(dtn_executor_step(&fixture.executor), ENONE);
    }
    CHECK_EQUAL(dtn_executor_steps_left(&fixture.executor), 0);
    end(&fixture);
}

/* Calls in an order that makes no run. */
static void test_order(void)
{
    fixture_t fixture;
    start(&fixture);
    dtn_executor_t *executor = &fixture.executor;
    check_error(dtn_executor_start(NULL, NULL), DTN_REASON_NULL_POINTER, 0, "no executor to start");
    check_error(dtn_executor_step(NULL), DTN_REASON_RUN_STATE, 0, "no executor to step");
    check_error(dtn_executor_finish(NULL, NULL), DTN_REASON_NULL_POINTER, 0, "no executor to finish");
    CHECK_EQUAL(dtn_executor_steps_left(NULL), 0);
    check_error(dtn_executor_step(executor), DTN_REASON_RUN_STATE, 0, "a step before the start");
    check_error(dtn_executor_finish(executor, NULL), DTN_REASON_RUN_STATE, 0, "a finish before the start");
    check_next(&fixture, 1, "refused calls");
    check_error(dtn_executor_step(executor), DTN_REASON_RUN_STATE, 0, "a step after a run");
    check_error(dtn_executor_finish(executor, NULL), DTN_REASON_RUN_STATE, 0, "a finish after a run");
    CHECK_EQUAL(dtn_executor_start(executor, fixture.buffers.inputs), ENONE);
    CHECK_EQUAL(dtn_executor_step(executor), ENONE);
    check_error(dtn_executor_finish(executor, NULL), DTN_REASON_RUN_STATE, 0, "a finish with steps left");
    check_next(&fixture, 2, "a run that was given up");
    check_error(dtn_executor_step(executor), DTN_REASON_RUN_STATE, 0, "a step of a run that was given up");
    CHECK_EQUAL(run_in_steps(&fixture), ENONE);
    check_error(dtn_executor_step(executor), DTN_REASON_RUN_STATE, 0, "a step after the finish");
    check_error(dtn_executor_finish(executor, NULL), DTN_REASON_RUN_STATE, 0, "a second finish");
    CHECK_EQUAL(dtn_executor_start(executor, fixture.buffers.inputs), ENONE);
    CHECK_EQUAL(dtn_executor_deinit(executor), ENONE);
    CHECK_EQUAL(dtn_executor_steps_left(executor), 0);
    check_error(dtn_executor_start(executor, NULL), DTN_REASON_NULL_POINTER, 0, "a start after deinit");
    check_error(dtn_executor_step(executor), DTN_REASON_RUN_STATE, 0, "a step after deinit");
    check_error(dtn_executor_finish(executor, NULL), DTN_REASON_NULL_POINTER, 0, "a finish after deinit");
    small_free(&fixture.small);
}

/* The call of the function with this number, counted from 0, aborts the run. */
static bool go_on(void *user)
{
    uint32_t *left = user;
    return (*left)-- != 0;
}

/* The steps with their commands, in the order of the function's calls: the first delegate has five. */
static const struct {
    uint32_t step;    /* that has ended, or runs */
    uint32_t command; /* 0 between steps */
} expected[] = {{1, 0}, {2, 0}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 0}, {3, 0}, {4, 0}, {5, 0}};
enum { EXPECTED = sizeof expected / sizeof expected[0] };

static void test_aborts(void)
{
    fixture_t fixture;
    start(&fixture);
    for (uint32_t call = 0; call < EXPECTED; call++) {
        for (int in_steps = 0; in_steps < 2; in_steps++) {
            uint32_t left = call;
            char what[64];
            snprintf(what, sizeof what, "abort %u, %s", (unsigned)call, in_steps != 0 ? "in steps" : "in a run");
            small_fill(&fixture.buffers, call + 1);
            dtn_set_progress(go_on, &left);
            NeutronError error =
                in_steps != 0 ? run_in_steps(&fixture)
                              : dtn_executor_run(&fixture.executor, fixture.buffers.inputs, fixture.buffers.outputs);
            dtn_set_progress(NULL, NULL);
            check_error(error, DTN_REASON_ABORTED, expected[call].command, what);
            CHECK_EQUAL(fixture.executor.step, expected[call].step);
            CHECK(*(const uint8_t *)fixture.buffers.outputs[0] == 0x5A, "outputs were copied, %s", what);
            CHECK_EQUAL(dtn_executor_steps_left(&fixture.executor), 0);
            check_error(dtn_executor_finish(&fixture.executor, NULL), DTN_REASON_RUN_STATE, 0, what);
            check_next(&fixture, call + 100, what);
        }
    }
    end(&fixture);
}

/* Copies that are another run's now: the error says so, and the run, or its finish alone, can be tried again. */
static void test_busy_copies(void)
{
    fixture_t fixture;
    start(&fixture);
    for (uint32_t copy = 0; copy < SMALL_COPIES; copy++) {
        refused.status = DTN_IO_BUSY;
        refused.left = copy;
        check_error(dtn_executor_run(&fixture.executor, fixture.buffers.inputs, fixture.buffers.outputs),
                    DTN_REASON_IO_BUSY, copy, "a copy while another is under way");
        check_next(&fixture, copy + 1, "a busy copy");
        refused.status = -1;
        refused.left = copy;
        check_error(dtn_executor_run(&fixture.executor, fixture.buffers.inputs, fixture.buffers.outputs),
                    DTN_REASON_IO_COPY, copy, "a copy that fails");
        small_fill(&fixture.buffers, copy + 1);
        refused.status = DTN_IO_BUSY;
        refused.left = copy;
        check_error(run_in_steps(&fixture), DTN_REASON_IO_BUSY, copy, "a copy in steps");
        if (copy >= 2) {
            CHECK_EQUAL(dtn_executor_finish(&fixture.executor, fixture.buffers.outputs), ENONE);
            CHECK(small_is_right(&fixture.buffers), "wrong outputs of a finish that was tried again");
        }
    }
    end(&fixture);
}

int main(void)
{
    test_steps();
    test_order();
    test_aborts();
    test_busy_copies();
    return test_result();
}
