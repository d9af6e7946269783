/* The memory of a model's panels: who gets some, what is refused, and what stays as it was. */
#include <stdlib.h>
#include <string.h>

#include "../src/kernels/requant.h"
#include "deuteron/driver.h"
#include "deuteron/kernel.h"
#include "deuteron/levels.h"
#include "prepare_errors.h"
#include "random_call.h"
#include "test.h"

static void start(build_t *build, uint32_t kind, NeutronModelHandle *handle)
{
    uint64_t state = 7;
    build_start(build);
    random_call(build, kind, &state);
    build_finish(build);
    NeutronModelConfig config = build_config(build);
    *handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, handle), ENONE);
}

static void end(build_t *build, NeutronModelHandle handle)
{
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_free(build);
}

/* Levels above the first have panels for convolutions, no level has them for additions. */
static void test_who_has_panels(void)
{
    build_t build;
    NeutronModelHandle handle;
    for (int32_t level = 0; dtn_level_name(level) != NULL; level++) {
        if (dtn_use_level(level)) {
            start(&build, DTN_KERNEL_CONV2D_S8, &handle);
            CHECK(dtn_panel_bytes(handle) == 0 || level > 0, "panels at %s", dtn_level_name(level));
            CHECK(dtn_panel_bytes(handle) != 0 || level == 0, "no panels at %s", dtn_level_name(level));
            end(&build, handle);
            start(&build, DTN_KERNEL_ADD_S8, &handle);
            CHECK_EQUAL(dtn_panel_bytes(handle), 0);
            CHECK_EQUAL(dtn_use_panels(handle, NULL, 0), ENONE);
            end(&build, handle);
        }
    }
}

static void test_refused(void)
{
    build_t build;
    NeutronModelHandle handle;
    start(&build, DTN_KERNEL_CONV2D_S8, &handle);
    size_t bytes = dtn_panel_bytes(handle);
    uint8_t *memory = (uint8_t *)build_alloc((uint32_t)bytes + 16);
    CHECK_EQUAL(dtn_panel_bytes(NULL), 0);
    check_error(dtn_use_panels(NULL, memory, bytes), DTN_REASON_BAD_HANDLE, 0, "panels of nothing");
    if (bytes != 0) {
        check_error(dtn_use_panels(handle, NULL, bytes), DTN_REASON_NULL_POINTER, 0, "no memory");
        check_error(dtn_use_panels(handle, memory + 8, bytes), DTN_REASON_MISALIGNED, 0, "misaligned memory");
        check_error(dtn_use_panels(handle, memory, bytes - 1), DTN_REASON_NO_MEMORY, 0, "too little memory");
        CHECK_EQUAL(dtn_panel_bytes(handle), bytes);
    }
    end(&build, handle);
    free(memory);
}

/* A model with panels keeps them and their level, and its microcode and weights are what they were. */
static void test_kept(void)
{
    build_t build;
    build_buffers_t expected;
    build_buffers_t found;
    NeutronModelHandle handle;
    int32_t level = dtn_level();
    start(&build, DTN_KERNEL_CONV2D_S8, &handle);
    size_t bytes = dtn_panel_bytes(handle);
    void *memory = build_alloc((uint32_t)bytes);
    build_buffers(&build, 3, &expected);
    build_buffers(&build, 3, &found);
    CHECK_EQUAL(neutronRunBlocking(handle, &expected.config), ENONE);
    CHECK_EQUAL(dtn_use_panels(handle, memory, bytes), ENONE);
    CHECK_EQUAL(dtn_panel_bytes(handle), 0);
    CHECK_EQUAL(dtn_use_panels(handle, NULL, 0), ENONE);
    CHECK_EQUAL(dtn_model_verify(handle), ENONE);
    CHECK(dtn_use_level(0), "the first level");
    CHECK_EQUAL(neutronRunBlocking(handle, &found.config), ENONE);
    CHECK(memcmp(expected.outputs[0], found.outputs[0], build.output_bytes[0]) == 0, "another output with panels");
    CHECK(dtn_use_level(level), "the level before");
    build_buffers_free(&found);
    build_buffers_free(&expected);
    end(&build, handle);
    free(memory);
}

#ifdef DTN_HAS_X86_LEVELS
size_t dtn_panels_conv2d_s8_avx2(const dtn_call_t *call, int32_t *panels);

/* Windows of 2^63 inputs, which need weights of 2 GB: no size exceeds its type, and such a part does not fit. */
static void test_large_windows(void)
{
    dtn_conv2d_s8_params_t params = {.batches = 1,
                                     .in_h = 1,
                                     .in_w = 1,
                                     .in_c = 1,
                                     .out_h = 1,
                                     .out_w = 1,
                                     .out_c = 1,
                                     .kernel_h = 46342,
                                     .kernel_w = 46342,
                                     .stride_h = 1,
                                     .stride_w = 1,
                                     .dilation_h = (int32_t)DTN_MAX_DIMENSION,
                                     .dilation_w = (int32_t)DTN_MAX_DIMENSION,
                                     .out_pitch = 1,
                                     .requant_count = 1};
    const dtn_requant_row_t row = {1, 33};
    dtn_call_t call = {.params = (const int32_t *)(const void *)&params};
    call.operands[DTN_CONV2D_S8_REQUANT].data = (uint8_t *)(uintptr_t)&row;
    if (dtn_has_level(1)) {
        CHECK_EQUAL(dtn_panels_conv2d_s8_avx2(&call, NULL), 0);
        params.kernel_w = 1;
        CHECK_EQUAL(dtn_panels_conv2d_s8_avx2(&call, NULL), 0);
    }
}
#else
static void test_large_windows(void)
{
}
#endif

int main(void)
{
    int32_t level = dtn_level();
    test_who_has_panels();
    CHECK(dtn_use_level(level), "the level before");
    test_refused();
    test_kept();
    test_large_windows();
    return test_result();
}
