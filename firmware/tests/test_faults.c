/*
 * Copies that go wrong: of inputs and outputs, and of weights. Each is tried with each copy of a run; the run ends with
 * the reason, and the next one is right.
 *
 * The copies are a port's with a DMA, simulated: a start returns at once, bytes arrive while somebody waits, a status
 * says what came of it, and a wait gives up after a time. Nothing may go on copying after a failure, which is checked.
 */
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/io.h"
#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

typedef enum {
    FAULT_NONE,
    FAULT_LATE,    /* done long after it started, in time */
    FAULT_START,   /* refused at the start */
    FAULT_STATUS,  /* over at once, with an error and no byte copied */
    FAULT_PARTIAL, /* over with an error after some of the bytes */
    FAULT_NEVER,   /* no end: the wait gives up */
    FAULTS
} fault_t;

/* The port gives up after this time; a late copy takes most of it. */
enum { TIME_OUT = 100, LATE = 90 };

/* One DMA channel. */
typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint32_t left;
    uint32_t delay; /* until the next byte */
    fault_t fault;
    bool busy;
    bool failed;
} dma_t;

/* The copy that goes wrong, by its number since `plan`. */
static struct {
    fault_t fault;
    uint32_t copy;
    uint32_t started;
    uint32_t waits; /* bit per channel */
} plan;

static dma_t channels[DTN_CHANNELS];

static void set_plan(fault_t fault, uint32_t copy)
{
    plan.fault = fault;
    plan.copy = copy;
    plan.started = 0;
    plan.waits = 0;
}

static bool dma_start(dma_t *dma, void *to, const void *from, size_t size)
{
    fault_t fault = plan.started++ == plan.copy ? plan.fault : FAULT_NONE;
    CHECK(!dma->busy, "a copy is still under way");
    *dma = (dma_t){(uint8_t *)to, (const uint8_t *)from, (uint32_t)size, 0, fault, true, false};
    if (fault == FAULT_START) {
        dma->busy = false;
    } else if (fault == FAULT_LATE) {
        dma->delay = LATE;
    } else if (fault == FAULT_NEVER) {
        dma->delay = UINT32_MAX;
    } else if (fault == FAULT_PARTIAL) {
        dma->left = dma->left / 2 + 1;
    }
    return dma->busy;
}

/* One unit of time of the hardware: the rest of the bytes after the delay, or an error. */
static void dma_step(dma_t *dma)
{
    if (!dma->busy || (dma->delay != 0 && dma->delay-- != 0)) {
        return;
    }
    if (dma->fault != FAULT_STATUS) {
        memcpy(dma->to, dma->from, dma->left);
    }
    dma->failed = dma->fault == FAULT_STATUS || dma->fault == FAULT_PARTIAL;
    dma->busy = false;
}

/* True when the copy, if there was one, is done; stops it when it takes too long. */
static bool dma_wait(dma_t *dma)
{
    for (int time = 0; dma->busy && time < TIME_OUT; time++) {
        dma_step(dma);
    }
    bool done = !dma->busy && !dma->failed;
    *dma = (dma_t){0};
    return done;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    return dma_start(&channels[0], dst, src, size) ? 0 : -1;
}

int32_t dtn_io_copy_wait(void)
{
    return dma_wait(&channels[0]) ? 0 : -2;
}

static bool fetch(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    return dma_start(&channels[channel], dst, src, size);
}

static bool fetch_wait(uint32_t channel)
{
    plan.waits |= UINT32_C(1) << channel;
    return dma_wait(&channels[channel]);
}

static void check_idle(void)
{
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        CHECK(!channels[i].busy, "channel %u still copies", (unsigned)i);
    }
}

static void check_next(dtn_executor_t *executor, small_buffers_t *buffers, uint64_t seed)
{
    small_fill(buffers, seed);
    CHECK_EQUAL(dtn_executor_run(executor, buffers->inputs, buffers->outputs), ENONE);
    CHECK(small_is_right(buffers), "wrong outputs after a fault, seed %u", (unsigned)seed);
    CHECK_EQUAL(executor->step, SMALL_STEPS);
    check_idle();
}

static void test_io_copies(dtn_executor_t *executor)
{
    small_buffers_t buffers;
    for (uint32_t copy = 0; copy < SMALL_COPIES; copy++) {
        for (fault_t fault = FAULT_LATE; fault < FAULTS; fault++) {
            char what[64];
            snprintf(what, sizeof what, "copy %u with fault %d", (unsigned)copy, (int)fault);
            bool fails = fault != FAULT_LATE;
            small_fill(&buffers, copy + 1);
            set_plan(fault, copy);
            NeutronError error = dtn_executor_run(executor, buffers.inputs, buffers.outputs);
            check_error(error, fails ? DTN_REASON_IO_COPY : DTN_OK, fails ? copy : 0, what);
            /* Nothing is copied, or run, after the failure. */
            CHECK_EQUAL(plan.started, fails ? copy + 1 : (uint32_t)SMALL_COPIES);
            CHECK_EQUAL(executor->step, fails && copy < 2 ? 0 : SMALL_STEPS);
            CHECK(fails || small_is_right(&buffers), "wrong outputs, %s", what);
            check_idle();
            check_next(executor, &buffers, copy + 100);
        }
    }
}

static void test_fetches(dtn_executor_t *executor)
{
    dtn_fetch_hooks_t hooks = {fetch, fetch_wait};
    small_buffers_t buffers;
    CHECK_EQUAL(dtn_set_fetch_hooks(&hooks), ENONE);
    for (fault_t fault = FAULT_NONE; fault < FAULTS; fault++) {
        char what[64];
        snprintf(what, sizeof what, "fetch with fault %d", (int)fault);
        bool fails = fault > FAULT_LATE;
        small_fill(&buffers, 1);
        memset(dtn_executor_input(executor, 0), 0, SMALL_COUNT * sizeof(float));
        set_plan(fault, 2); /* after two inputs */
        NeutronError error = dtn_executor_run(executor, buffers.inputs, buffers.outputs);
        check_error(error, fails ? DTN_REASON_FETCH : DTN_OK,
                    !fails                 ? 0
                    : fault == FAULT_START ? SMALL_FETCH
                                           : SMALL_WAIT,
                    what);
        CHECK_EQUAL(executor->step, fails ? SMALL_FIRST : SMALL_STEPS);
        CHECK_EQUAL(plan.started, fails ? 3 : SMALL_COPIES + 1);
        /* A copy that did not start has no end to wait for, and other channels may be another run's. */
        CHECK_EQUAL(plan.waits, fault == FAULT_START ? 0 : 4);
        CHECK(fails || small_is_right(&buffers), "wrong outputs, %s", what);
        check_idle();
        check_next(executor, &buffers, 100);
    }
    CHECK_EQUAL(neutronDeinit(), ENONE); /* puts the default hooks back */
    CHECK_EQUAL(neutronInit(), ENONE);
}

static void test_model_info(const small_t *small)
{
    NeutronModelConfig config = build_config(&small->first);
    NeutronModelHandle handle = NULL;
    dtn_model_info_t info;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(dtn_model_info(handle, &info), ENONE);
    CHECK_EQUAL(info.inputs, 2);
    CHECK_EQUAL(info.outputs, 2);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(info.tensor_bytes[i], SMALL_COUNT);
    }
    CHECK_EQUAL(info.scratch_bytes, 16);
    CHECK_EQUAL(info.prefetch_bytes, DTN_LUT_BYTES);
    CHECK_EQUAL(info.profile_bytes, 6 * DTN_PROFILE_RECORD_BYTES);
    check_error(dtn_model_info(handle, NULL), DTN_REASON_NULL_POINTER, 0, "nowhere to put it");
    CHECK(neutronGetModelContextSize() <= DTN_CONTEXT_BYTES, "a context has more bytes than promised");
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(dtn_model_info(NULL, &info), DTN_REASON_BAD_HANDLE, 0, "no model");
}

int main(void)
{
    dtn_executor_t executor;
    small_t small;
    small_start(&small);
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    test_io_copies(&executor);
    test_fetches(&executor);
    test_model_info(&small);
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
    return test_result();
}
