/* The driver's functions: what they refuse of their callers, and what a run does with buffers, hooks and profiles. */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/port.h"
#include "prepare_errors.h"
#include "small_container.h"
#include "test.h"

static void test_arguments(void)
{
    build_t build;
    small_container(&build);
    build_finish(&build);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    check_error(neutronModelPrepare(NULL, &handle), DTN_REASON_NULL_POINTER, 0, "no config");
    check_error(neutronModelPrepare(&config, NULL), DTN_REASON_NULL_POINTER, 0, "no handle");
    config.weights = NULL;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_NULL_POINTER, 0, "no weights");
    config = build_config(&build);
    config.microcode = (const uint8_t *)config.microcode + 8;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned microcode");
    config = build_config(&build);
    config.kernels = (const uint8_t *)config.kernels + 8;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned kernels");
    check_error(neutronModelUnprepare(NULL), DTN_REASON_BAD_HANDLE, 0, "unprepare of nothing");
    check_error(neutronRunBlocking(NULL, NULL), DTN_REASON_BAD_HANDLE, 0, "run of nothing");
    check_error(neutronSetConfig(NULL), DTN_REASON_NULL_POINTER, 0, "no hooks");
    build_free(&build);
}

/* Memory of the caller's for the context: used when aligned, refused when not, dead after unprepare. */
static void test_context(void)
{
    build_t build;
    build_buffers_t buffers;
    small_container(&build);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    void *block = build_alloc((uint32_t)(neutronGetModelContextSize() + sizeof(void *)));
    /* The least alignment that ExecuTorch's delegate asks for. */
    void *memory = (uint8_t *)block + sizeof(void *);
    NeutronModelHandle handle = (uint8_t *)memory - 1;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned context");
    handle = memory;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK(handle == memory, "the context is elsewhere");
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    check_error(neutronRunBlocking(handle, NULL), DTN_REASON_NULL_POINTER, 0, "no buffers");
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_BAD_HANDLE, 0, "run after unprepare");
    check_error(neutronModelUnprepare(handle), DTN_REASON_BAD_HANDLE, 0, "unprepare twice");
    free(block);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_buffers_refused(void)
{
    build_t build;
    build_buffers_t buffers;
    small_container(&build);
    build.profiling = true;
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    void **places[] = {&buffers.inputs[0], &buffers.outputs[0], &buffers.outputs[1], &buffers.outputs[2],
                       &buffers.config.scratchWeights};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        void *kept = *places[i];
        *places[i] = NULL;
        check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_NULL_POINTER, 0, "a buffer missing");
        if (i >= 2) {
            *places[i] = (uint8_t *)kept + 8;
            check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_MISALIGNED, 0, "a buffer misaligned");
        }
        *places[i] = kept;
    }
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_profile(void)
{
    static const uint32_t codes[] = {0x0307 << 8, 0x0308 << 8, 0x0C06 << 8, 0x0B06 << 8, 0};
    build_t build;
    build_buffers_t buffers;
    small_container(&build);
    build.profiling = true;
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    const uint32_t begin = dtn_port_ticks();
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    const uint32_t call = dtn_port_ticks() - begin;
    const uint32_t *records = (const uint32_t *)buffers.outputs[build.outputs + 1];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const uint32_t *record = records + 4 * i;
        CHECK_EQUAL(record[0], codes[i] + 1);
        CHECK_EQUAL(record[2], codes[i] + 2);
        const uint32_t lasts = i < 4 ? record[3] - record[1] : record[1] - record[3];
        CHECK(lasts < 1000000000U, "record %u lasts %u ns", (unsigned)i, (unsigned)lasts);
    }
    /* The closing record reaches from the end of all others to their begin. Its time in ExecuTorch's delegate, with the
     * call's time after its stop, is the call's time without the commands. */
    CHECK(records[19] + call - records[17] < call, "the run is counted twice");
    for (size_t i = 0; i < 4; i++) {
        CHECK(records[4 * i + 1] - records[19] <= records[17] - records[19], "record %u starts outside", (unsigned)i);
    }
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build.microcode[DTN_LAYOUT_B_PROFILE_BYTES] -= 16;
    build_seal(&build);
    check_error(prepare(&build), DTN_REASON_PROFILE_SIZE, 0, "profile too small");
    build_buffers_free(&buffers);
    build_free(&build);
}

/* The calls of the hooks below, in order. */
static char log_text[64];

static void log_copy(void *dst, void *src, uint32_t size, uint32_t channel)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "copy %u on %u;", (unsigned)size, (unsigned)channel);
    memcpy(dst, src, size);
}

static void log_wait(uint32_t channel)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "wait %u;", (unsigned)channel);
}

/* Another model's run, from inside a hook, as an interrupt would make it. */
static NeutronModelHandle other_handle;
static const NeutronDataConfig *other_data;

static bool fail_to_wait(uint32_t channel)
{
    log_wait(channel);
    if (other_handle != NULL) {
        CHECK_EQUAL(neutronRunBlocking(other_handle, other_data), ENONE);
    }
    return false;
}

static bool status_copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "copy %u on %u;", (unsigned)size, (unsigned)channel);
    memcpy(dst, src, size);
    return true;
}

/* A failed fetch ends its own run, though a model that fetches nothing runs to its end before the driver looks. */
static void test_failure_is_not_lost(void)
{
    dtn_fetch_hooks_t hooks = {status_copy, fail_to_wait};
    dtn_fetch_hooks_t half = {NULL, fail_to_wait};
    dtn_fill_s8_params_t fill = {16, 3};
    build_t build[2];
    build_buffers_t buffers[2];
    NeutronModelHandle handles[2] = {NULL, NULL};
    small_container(&build[0]);
    build_start(&build[1]);
    build_ref_t filled[] = {build_output(&build[1], 16)};
    build_call(&build[1], DTN_KERNEL_FILL_S8, filled, &fill);
    for (int i = 0; i < 2; i++) {
        build_finish(&build[i]);
        build_buffers(&build[i], 1, &buffers[i]);
        NeutronModelConfig config = build_config(&build[i]);
        CHECK_EQUAL(neutronModelPrepare(&config, &handles[i]), ENONE);
    }
    other_handle = handles[1];
    other_data = &buffers[1].config;
    CHECK_EQUAL(neutronInit(), ENONE);
    check_error(dtn_set_fetch_hooks(NULL), DTN_REASON_NULL_POINTER, 0, "no hooks");
    check_error(dtn_set_fetch_hooks(&half), DTN_REASON_NULL_POINTER, 0, "half of the hooks");
    CHECK_EQUAL(dtn_set_fetch_hooks(&hooks), ENONE);
    log_text[0] = '\0';
    check_error(neutronRunBlocking(handles[0], &buffers[0].config), DTN_REASON_FETCH, 1, "a wait that fails");
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "the hooks were asked: %s", log_text);
    CHECK_EQUAL(*(const int8_t *)buffers[1].outputs[0], 3);
    CHECK_EQUAL(neutronDeinit(), ENONE);
    other_handle = NULL;
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(neutronModelUnprepare(handles[i]), ENONE);
        build_buffers_free(&buffers[i]);
        build_free(&build[i]);
    }
}

/* A model without a prefetch area, whose callers leave the pointer to it uninitialised. */
static void test_absent_area_is_not_read(void)
{
    dtn_fill_s8_params_t fill = {16, 3};
    build_t build;
    build_buffers_t buffers;
    build_start(&build);
    build_ref_t filled[] = {build_output(&build, 16)};
    build_call(&build, DTN_KERNEL_FILL_S8, filled, &fill);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(dtn_model_keep_prefetch(handle, true), ENONE);
    NeutronDataConfig *data = build_alloc(sizeof *data);
    *data = buffers.config;
    ASAN_POISON_MEMORY_REGION(&data->scratchWeights, sizeof data->scratchWeights);
    for (int run = 0; run < 2; run++) {
        CHECK_EQUAL(neutronRunBlocking(handle, data), ENONE);
    }
    ASAN_UNPOISON_MEMORY_REGION(&data->scratchWeights, sizeof data->scratchWeights);
    free(data);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Blocks to damage while the model is prepared. */
static void test_verify(void)
{
    build_t build;
    small_container(&build);
    build_finish(&build);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(dtn_model_verify(handle), ENONE);
    for (uint32_t bit = 0; bit < 8 * build.microcode_bytes; bit++) {
        build.microcode[bit / 32] ^= UINT32_C(1) << bit % 32;
        check_error(dtn_model_verify(handle), DTN_REASON_MICROCODE_CRC, 0, "a bit of the microcode");
        build.microcode[bit / 32] ^= UINT32_C(1) << bit % 32;
    }
    for (uint32_t i = 0; i < build.weights_bytes; i++) {
        build.weights[i] ^= 0x10U;
        check_error(dtn_model_verify(handle), DTN_REASON_WEIGHTS_CRC, 0, "a bit of the weights");
        build.weights[i] ^= 0x10U;
    }
    CHECK_EQUAL(dtn_model_verify(handle), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(dtn_model_verify(NULL), DTN_REASON_BAD_HANDLE, 0, "a handle that is none");
    build_free(&build);
}

static bool count(void *user)
{
    (*(uint32_t *)user)++;
    return true;
}

static bool go_on(void *user)
{
    uint32_t *left = user;
    return (*left)-- != 0;
}

static void test_progress(void)
{
    uint32_t calls = 0;
    build_t build;
    build_buffers_t buffers;
    small_container(&build);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    dtn_set_progress(count, &calls);
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK_EQUAL(calls, 4);
    /* Any command may be the last of an aborted run. */
    for (uint32_t command = 0; command < 4; command++) {
        uint32_t left = command;
        dtn_set_progress(go_on, &left);
        check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_ABORTED, command, "an aborted run");
    }
    dtn_set_progress(NULL, NULL);
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK_EQUAL(calls, 4);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_hooks(void)
{
    NeutronConfig hooks = {log_copy, log_wait};
    NeutronConfig half = {log_copy, NULL};
    build_t build;
    build_buffers_t buffers;
    small_container(&build);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    check_error(neutronSetConfig(&half), DTN_REASON_NULL_POINTER, 0, "half of the hooks");
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "the hooks were asked: %s", log_text);
    CHECK(memcmp(buffers.prefetch, build.weights, 256) == 0, "the prefetch area does not hold the weights");
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronInit(), ENONE); /* another component's: keeps the hooks of others */
    CHECK_EQUAL(neutronDeinit(), ENONE);
    log_text[0] = '\0';
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "hooks after another's init and deinit: %s", log_text);
    CHECK_EQUAL(neutronDeinit(), ENONE); /* the last one puts the default hooks back */
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "hooks used after neutronDeinit: %s", log_text);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Resident weights are copied by the first run only, as long as the promise holds. */
static void test_resident(void)
{
    static NeutronConfig hooks = {log_copy, log_wait};
    static const char whole[] = "copy 64 on 0;wait 0;copy 16 on 1;wait 1;";
    static const char rest[] = "copy 16 on 1;wait 1;";
    build_t build;
    build_buffers_t buffers;
    build_start(&build);
    build.prefetch_bytes = 80;
    build.resident_bytes = 64;
    build_constant(&build, NULL, 80);
    build_fetch(&build, 0, 0, 0, 64);
    build_wait(&build, 0);
    build_fetch(&build, 1, 64, 64, 16);
    build_wait(&build, 1);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    struct {
        int keep;   /* -1: as it is */
        bool other; /* another prefetch area */
        const char *log;
    } runs[] = {{-1, false, whole}, {-1, false, whole}, {1, false, whole}, {-1, false, rest}, {-1, false, rest},
                {-1, true, whole},  {-1, false, whole}, {-1, false, rest}, {0, false, whole}, {-1, false, whole}};
    uint8_t *area = (uint8_t *)buffers.config.scratchWeights;
    uint8_t *another = build_alloc(build.prefetch_bytes);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        if (runs[i].keep >= 0) {
            CHECK_EQUAL(dtn_model_keep_prefetch(handle, runs[i].keep != 0), ENONE);
        }
        log_text[0] = '\0';
        buffers.config.scratchWeights = runs[i].other ? another : area;
        CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
        CHECK(strcmp(log_text, runs[i].log) == 0, "run %zu asked the hooks: %s", i, log_text);
        CHECK(memcmp(buffers.config.scratchWeights, build.weights, 80) == 0, "run %zu: not the weights", i);
    }
    free(another);
    CHECK_EQUAL(neutronDeinit(), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(dtn_model_keep_prefetch(NULL, true), DTN_REASON_BAD_HANDLE, 0, "a handle that is none");
    buffers.config.scratchWeights = area;
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Weights in scratch are copied by every run, whatever the prefetch area keeps, and calls read them there. */
static void test_fetched_to_scratch(void)
{
    static NeutronConfig hooks = {log_copy, log_wait};
    uint8_t table[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {16};
    build_t build;
    build_buffers_t buffers;
    for (size_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(i ^ 0x80U);
    }
    build_start(&build);
    build.profiling = true;
    build.prefetch_bytes = build.resident_bytes = 64;
    build_constant(&build, table, sizeof table);
    build_ref_t target = build_scratch(&build, sizeof table);
    build_ref_t operands[] = {build_input(&build, 16), target, build_output(&build, 16)};
    build_fetch(&build, 0, 0, 0, 64);
    build_wait(&build, 0);
    build_fetch_to_scratch(&build, 3, 0, 0, sizeof table);
    build_wait(&build, 3);
    build_call(&build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    CHECK_EQUAL(dtn_model_keep_prefetch(handle, true), ENONE);
    for (int run = 0; run < 2; run++) {
        const char *log = run == 0 ? "copy 64 on 0;wait 0;copy 256 on 3;wait 3;" : "copy 256 on 3;wait 3;";
        uint8_t *scratch = (uint8_t *)buffers.config.outputs[1];
        const uint32_t *profile = (const uint32_t *)buffers.config.outputs[2];
        log_text[0] = '\0';
        memset(scratch, 0, sizeof table);
        CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
        CHECK(strcmp(log_text, log) == 0, "run %d asked the hooks: %s", run, log_text);
        CHECK(memcmp(scratch, table, sizeof table) == 0, "run %d: scratch does not hold the weights", run);
        CHECK(memcmp(buffers.outputs[0], buffers.inputs[0], 16) == 0, "run %d: another table was read", run);
        CHECK_EQUAL(profile[2 * DTN_PROFILE_RECORD_BYTES / DTN_WORD_BYTES],
                    1 | 7 << 8 | 3 << 16); /* fetch, channel 3 */
    }
    CHECK_EQUAL(neutronDeinit(), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_errors(void)
{
    NeutronError error = dtn_error(DTN_REASON_OPERAND_SIZE, 7);
    CHECK_EQUAL(error, 3 | 2 << 3 | 47 << 8 | 7 << 16);
    CHECK_EQUAL(DTN_ERROR_REASON(error), DTN_REASON_OPERAND_SIZE);
    CHECK_EQUAL(DTN_ERROR_DETAIL(error), 7);
    CHECK_EQUAL(DTN_ERROR_DETAIL(dtn_error(DTN_REASON_OPCODE, 100000)), 0x7FFF);
    CHECK_EQUAL(dtn_error(DTN_OK, 5), ENONE);
    CHECK(strcmp(dtn_error_string(error), "an operand's size is not what the parameters need") == 0, "%s",
          dtn_error_string(error));
    CHECK(strcmp(dtn_error_string(ENONE), "no error") == 0, "%s", dtn_error_string(ENONE));
    CHECK(strcmp(dtn_error_string(0x2F03), "unknown error") == 0, "another category");
    CHECK(strcmp(dtn_error_string(-1), "unknown error") == 0, "a negative number");
    CHECK(strcmp(getNeutronErrorComponent(error), "driver") == 0, "%s", getNeutronErrorComponent(error));
    CHECK(strcmp(getNeutronErrorCategory(error), "microcode") == 0, "%s", getNeutronErrorCategory(error));
    CHECK(strcmp(getNeutronErrorComponent(7), "unknown") == 0, "%s", getNeutronErrorComponent(7));
    CHECK(strcmp(getNeutronErrorCategory(31 << 3), "unknown") == 0, "%s", getNeutronErrorCategory(31 << 3));
}

static void test_other_npu(void)
{
    bool ready = false;
    NeutronError error = neutronIsReady(NULL, &ready);
    check_error(error, DTN_REASON_OTHER_NPU, 0, "neutronIsReady");
    CHECK_EQUAL(GET_ERROR_CATEGORY(error), ERROR_CATEGORY_DRIVER_UNSUPPORTED);
    check_error(neutronRunNonBlocking(NULL, NULL), DTN_REASON_OTHER_NPU, 0, "neutronRunNonBlocking");
    CHECK(neutronMemAlloc(16, 16) == NULL, "neutronMemAlloc found memory");
    CHECK_EQUAL(neutronGetSdkVersion().hashUint32, DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MICROCODE_VERSION_MINOR);
    CHECK_EQUAL(neutronSuspend(), ENONE);
    CHECK_EQUAL(neutronResume(), ENONE);
    CHECK_EQUAL(neutronDeinit(), ENONE);
}

int main(void)
{
    test_arguments();
    test_context();
    test_buffers_refused();
    test_profile();
    test_hooks();
    test_failure_is_not_lost();
    test_absent_area_is_not_read();
    test_verify();
    test_progress();
    test_resident();
    test_fetched_to_scratch();
    test_errors();
    test_other_npu();
    return test_result();
}
