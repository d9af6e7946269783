/* The driver's functions: what they refuse of their callers, and what a run does with buffers, hooks and profiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deuteron/driver.h"
#include "refusal.h"
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
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    const uint32_t *records = (const uint32_t *)buffers.outputs[build.outputs + 1];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const uint32_t *record = records + 4 * i;
        CHECK_EQUAL(record[0], codes[i] + 1);
        CHECK_EQUAL(record[2], codes[i] + 2);
        CHECK(record[3] - record[1] < 1000000000U, "record %u lasts %u ns", (unsigned)i,
              (unsigned)(record[3] - record[1]));
    }
    /* The closing record spans all others. */
    for (size_t i = 0; i < 4; i++) {
        CHECK(records[4 * i + 1] - records[17] <= records[19] - records[17], "record %u starts outside", (unsigned)i);
    }
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build.microcode[DTN_LAYOUT_B_PROFILE_BYTES] -= 16;
    build_seal(&build);
    check_error(prepare(&build), DTN_REASON_PROFILE_SIZE, 0, "profile too small");
    build_buffers_free(&buffers);
    build_free(&build);
}

/* What the hooks below were asked, in order. */
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
    CHECK_EQUAL(neutronInit(), ENONE); /* puts the default hooks back */
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "hooks used after neutronInit: %s", log_text);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Resident weights are copied by the first run only, as long as the promise holds. */
static void test_resident(void)
{
    static NeutronConfig hooks = {log_copy, log_wait};
    static const char whole[] = "copy 64 on 0;wait 0;copy 16 on 1;wait 1;";
    static const char rest[] = "wait 0;copy 16 on 1;wait 1;";
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
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(dtn_model_keep_prefetch(NULL, true), DTN_REASON_BAD_HANDLE, 0, "a handle that is none");
    buffers.config.scratchWeights = area;
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
    CHECK_EQUAL(neutronGetSdkVersion().hashUint32, 0x10000);
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
    test_resident();
    test_errors();
    test_other_npu();
    return test_result();
}
