/* Resident weights, which later runs rely on: never after a run that failed, nor where others use the prefetch area. */
#include <stdlib.h>
#include <string.h>

#include "bundle_builder.h"
#include "deuteron/driver.h"
#include "prepare_errors.h"
#include "test.h"

/* The first bytes of the table stay; each run fetches the others again. */
enum { RESIDENT = 64, COUNT = 16 };
enum { RESIDENT_CHANNEL, REST_CHANNEL };

/* The channel whose fetches fail, -1 for none, and the fetches of the last run. */
static int failing;
static uint32_t fetches;

static bool fetch(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    fetches++;
    if (failing == (int)channel) {
        return false;
    }
    memcpy(dst, src, size);
    return true;
}

static bool wait(uint32_t channel)
{
    (void)channel;
    return true;
}

static void use_hooks(void)
{
    dtn_fetch_hooks_t hooks = {fetch, wait};
    CHECK_EQUAL(dtn_set_fetch_hooks(&hooks), ENONE);
    failing = -1;
}

/* A container that copies its input to its output by a table which the driver fetches. */
static void start(build_t *build)
{
    uint8_t weights[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {COUNT};
    build_start(build);
    build->prefetch_bytes = DTN_LUT_BYTES;
    build->resident_bytes = RESIDENT;
    for (size_t i = 0; i < sizeof weights; i++) {
        weights[i] = (uint8_t)(i ^ 0x80U);
    }
    build_constant(build, weights, sizeof weights);
    build_fetch(build, RESIDENT_CHANNEL, 0, 0, RESIDENT);
    build_wait(build, RESIDENT_CHANNEL);
    build_fetch(build, REST_CHANNEL, RESIDENT, RESIDENT, DTN_LUT_BYTES - RESIDENT);
    build_wait(build, REST_CHANNEL);
    build_ref_t table = {DTN_REGION_PREFETCH, 0, 0, DTN_LUT_BYTES};
    build_ref_t operands[] = {build_input(build, COUNT), table, build_output(build, COUNT)};
    build_call(build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_finish(build);
}

static void check_run(NeutronModelHandle handle, const build_t *build, const NeutronDataConfig *data, uint32_t expected)
{
    fetches = 0;
    CHECK_EQUAL(neutronRunBlocking(handle, data), ENONE);
    CHECK_EQUAL(fetches, expected);
    CHECK(memcmp(data->scratchWeights, build->weights, DTN_LUT_BYTES) == 0, "the area does not hold the weights");
}

/* A failed run leaves nothing to rely on, whichever of its fetches failed; nor does a context used before. */
static void test_after_a_failed_run(void)
{
    build_t build;
    build_buffers_t buffers;
    start(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    void *context = build_alloc(DTN_CONTEXT_BYTES);
    NeutronModelHandle handle = context;
    use_hooks();
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(dtn_model_keep_prefetch(handle, true), ENONE);
    for (int channel = RESIDENT_CHANNEL; channel <= REST_CHANNEL; channel++) {
        failing = channel;
        CHECK(neutronRunBlocking(handle, &buffers.config) != ENONE, "a failed fetch went unnoticed");
        failing = -1;
        memset(buffers.prefetch, 0xEE, DTN_LUT_BYTES);
        check_run(handle, &build, &buffers.config, 2);
        check_run(handle, &build, &buffers.config, 1);
    }
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    memset(buffers.prefetch, 0xEE, DTN_LUT_BYTES);
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    check_run(handle, &build, &buffers.config, 2);
    free(context);
    build_buffers_free(&buffers);
    build_free(&build);
}

/* The executor keeps the weights of an only delegate; several use the same area in turn. */
static void test_executor(uint32_t delegates)
{
    dtn_executor_t executor;
    build_t build[2];
    uint32_t values[3];
    program_t *program = (program_t *)build_alloc(sizeof *program);
    program_start(program);
    for (uint32_t i = 0; i <= delegates; i++) {
        values[i] = program_value(program, i % 2, COUNT, DTN_TYPE_S8);
    }
    for (uint32_t i = 0; i < delegates; i++) {
        start(&build[i]);
        program_delegate(program, &build[i], values + i);
    }
    program_input(program, values[0]);
    program_output(program, values[delegates]);
    program_finish(program);
    use_hooks();
    CHECK_EQUAL(dtn_executor_init(&executor, &program->bundle, program->memories), ENONE);
    for (uint32_t run = 0; run < 3; run++) {
        uint8_t x[COUNT];
        uint8_t y[COUNT];
        const void *inputs[] = {x};
        void *outputs[] = {y};
        memset(x, (int)(0x75 + 9 * run), sizeof x);
        fetches = 0;
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        CHECK_EQUAL(fetches, run != 0 && delegates == 1 ? 1 : 2 * delegates);
        CHECK(memcmp(x, y, sizeof x) == 0, "run %u of %u delegates gives wrong outputs", (unsigned)run,
              (unsigned)delegates);
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    for (uint32_t i = 0; i < delegates; i++) {
        build_free(&build[i]);
    }
    program_free(program);
    free(program);
}

int main(void)
{
    CHECK_EQUAL(neutronInit(), ENONE);
    test_after_a_failed_run();
    test_executor(1);
    test_executor(2);
    return test_result();
}
