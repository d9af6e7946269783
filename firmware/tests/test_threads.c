/*
 * Calls from two threads that deuteron/driver.h (Concurrency) allows, for the thread sanitizer, which reports unordered
 * accesses. With the argument `race`: what the contract does not allow, to show that the sanitizer would say so.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/errors.h"
#include "small_container.h"
#include "test.h"

enum { THREADS = 2, RUNS = 300, COUNT = 64 };

/* A thread that runs a model on its buffers, and the expected result of each run; `outputs` hold what it must give. */
typedef struct {
    NeutronModelHandle handle;
    build_buffers_t buffers;
    int8_t expected[COUNT];
    dtn_reason_t reason;
    uint32_t wrong;
} runner_t;

static void *run_often(void *argument)
{
    runner_t *runner = (runner_t *)argument;
    for (int run = 0; run < RUNS; run++) {
        memset(runner->buffers.outputs[0], 0, COUNT);
        NeutronError error = neutronRunBlocking(runner->handle, &runner->buffers.config);
        bool right = error == ENONE && memcmp(runner->buffers.outputs[0], runner->expected, COUNT) == 0;
        runner->wrong += runner->reason == DTN_OK ? !right : DTN_ERROR_REASON(error) != runner->reason;
    }
    return NULL;
}

/* A model that looks each value up in a table, which it fetches or not. */
static void start(build_t *build, bool fetches, bool resident)
{
    uint8_t table[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {COUNT};
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(i * 7 + 3);
    }
    build_start(build);
    build_ref_t operands[] = {build_input(build, COUNT), build_constant(build, table, sizeof table),
                              build_output(build, COUNT)};
    if (fetches) {
        build->prefetch_bytes = sizeof table;
        build->resident_bytes = resident ? sizeof table : 0;
        build_fetch(build, 1, operands[1].offset, 0, sizeof table);
        build_wait(build, 1);
        operands[1].region = DTN_REGION_PREFETCH;
        operands[1].offset = 0;
    }
    build_call(build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_finish(build);
}

static NeutronModelHandle prepare_model(const build_t *build)
{
    NeutronModelConfig config = build_config(build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    return handle;
}

static void give_buffers(runner_t *runner, const build_t *build, uint64_t seed)
{
    build_buffers(build, seed, &runner->buffers);
    const uint8_t *x = (const uint8_t *)runner->buffers.inputs[0];
    for (uint32_t i = 0; i < COUNT; i++) {
        runner->expected[i] = (int8_t)build->weights[x[i] ^ 0x80U];
    }
}

/* Runs the two models at the same time, the first with the reason; the same model twice when it is given twice. */
static void run_two(const build_t *first, const build_t *second, dtn_reason_t reason, bool keep, const char *what)
{
    pthread_t threads[THREADS];
    runner_t *runners = (runner_t *)build_alloc(THREADS * sizeof *runners);
    runners[0].handle = prepare_model(first);
    runners[0].reason = reason;
    runners[1].handle = second == first ? runners[0].handle : prepare_model(second);
    CHECK_EQUAL(dtn_model_keep_prefetch(runners[0].handle, keep), ENONE);
    give_buffers(&runners[0], first, 1);
    give_buffers(&runners[1], second, 2);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run_often, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK(runners[i].wrong == 0, "%s: %u of thread %d's runs are wrong", what, (unsigned)runners[i].wrong, i);
        build_buffers_free(&runners[i].buffers);
    }
    CHECK_EQUAL(neutronModelUnprepare(runners[0].handle), ENONE);
    if (second != first) {
        CHECK_EQUAL(neutronModelUnprepare(runners[1].handle), ENONE);
    }
    free(runners);
}

static bool copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    (void)channel;
    memcpy(dst, src, size);
    return true;
}

static bool fail(uint32_t channel)
{
    (void)channel;
    return false;
}

int main(int count, char **words)
{
    static const dtn_fetch_hooks_t failing = {copy, fail};
    bool race = count > 1 && strcmp(words[1], "race") == 0;
    build_t plain;
    build_t fetching;
    build_t resident;
    start(&plain, false, false);
    start(&fetching, true, false);
    start(&resident, true, true);
    CHECK_EQUAL(neutronInit(), ENONE);
    if (race) {
        run_two(&resident, &resident, DTN_OK, true, "one model that keeps its area");
    } else {
        run_two(&fetching, &plain, DTN_OK, false, "two models");
        run_two(&fetching, &resident, DTN_OK, true, "two models that fetch, by the default hooks");
        run_two(&fetching, &fetching, DTN_OK, false, "one model");
        run_two(&plain, &plain, DTN_OK, true, "one model without an area to keep");
        CHECK_EQUAL(dtn_set_fetch_hooks(&failing), ENONE);
        run_two(&fetching, &plain, DTN_REASON_FETCH, false, "a failing fetch, and a model without");
    }
    CHECK_EQUAL(neutronDeinit(), ENONE);
    build_free(&plain);
    build_free(&fetching);
    build_free(&resident);
    return test_result();
}
