/* Every fast kernel gives the bytes of its reference at each level that this processor has, over random calls with
 * awkward shapes and unaligned buffers. */
#include <stdlib.h>
#include <string.h>

#include "../src/driver/model.h"
#include "deuteron/levels.h"
#include "random_call.h"
#include "random_parameters.h"
#include "reference_kernels.h"
#include "test.h"

static const char *const names[DTN_KERNEL_KINDS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place) [DTN_KERNEL_##NAME] = #name,
    DTN_KERNELS(DTN_X)
#undef DTN_X
};

static NeutronError run(const build_t *build, const dtn_kernel_t *kernels, build_buffers_t *buffers)
{
    NeutronModelConfig config = build_config(build);
    dtn_model_t model;
    NeutronError error = dtn_model_check(&config, kernels, &model);
    return error != ENONE ? error : dtn_model_run(&model, &buffers->config, false);
}

/* A run of a model whose weights have been brought into the form of the level in use. */
static NeutronError run_with_panels(const build_t *build, build_buffers_t *buffers)
{
    NeutronModelConfig config = build_config(build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    size_t bytes = dtn_panel_bytes(handle);
    void *panels = build_alloc((uint32_t)bytes);
    CHECK_EQUAL(dtn_use_panels(handle, panels, bytes), ENONE);
    NeutronError error = neutronRunBlocking(handle, &buffers->config);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    free(panels);
    return error;
}

/* The fast kernel at the level in use gives what its reference gave. */
static void compare_level(uint32_t kind, uint64_t seed, const build_t *build, const build_buffers_t *expected,
                          build_buffers_t *found, bool panels)
{
    const char *level = dtn_level_name(dtn_level());
    NeutronError fast = panels ? run_with_panels(build, found) : run(build, neutronKernels, found);
    CHECK(fast == ENONE, "%s at %s, seed %" PRIu64 ": error 0x%X", names[kind], level, seed, (unsigned)fast);
    for (uint32_t i = 0; i < build->outputs; i++) {
        CHECK(memcmp(expected->outputs[i], found->outputs[i], build->output_bytes[i]) == 0,
              "%s at %s%s, seed %" PRIu64 ": output %u differs", names[kind], level, panels ? " with panels" : "", seed,
              (unsigned)i);
    }
}

/* One call on the reference kernels and on the fast ones at each level; counts outputs that are not one value. */
static void compare(uint32_t kind, uint64_t seed, bool wide, uint32_t *varied)
{
    uint64_t state = seed;
    build_t build;
    build_buffers_t expected;
    build_buffers_t found;
    build_start(&build);
    if (wide) {
        random_wide_conv2d(&build, &state);
    } else {
        random_call(&build, kind, &state);
    }
    build_finish(&build);
    build_buffers(&build, seed, &expected);
    NeutronError ref = run(&build, table_ref, &expected);
    CHECK(ref == ENONE, "%s, seed %" PRIu64 ": error 0x%X", names[kind], seed, (unsigned)ref);
    for (int32_t level = 0; dtn_level_name(level) != NULL; level++) {
        if (dtn_use_level(level)) {
            for (int panels = 0; panels < 2; panels++) {
                build_buffers(&build, seed, &found);
                compare_level(kind, seed, &build, &expected, &found, panels != 0);
                build_buffers_free(&found);
            }
        }
    }
    for (uint32_t i = 0; i < build.outputs; i++) {
        const uint8_t *a = (const uint8_t *)expected.outputs[i];
        *varied += build.output_bytes[i] > 1 && memcmp(a, a + 1, build.output_bytes[i] - 1) != 0 ? 1 : 0;
    }
    build_buffers_free(&expected);
    build_free(&build);
}

int main(int argc, char **argv)
{
    uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
    for (uint32_t kind = 1; kind < DTN_KERNEL_KINDS; kind++) {
        uint32_t varied = 0;
        for (uint64_t seed = 1; seed <= cases; seed++) {
            compare(kind, seed * UINT64_C(0x9E3779B97F4A7C15), false, &varied);
        }
        /* Were most outputs constant, equal outputs would mean little. */
        CHECK(kind == DTN_KERNEL_FILL_S8 || varied * 3 > cases, "%s: only %u of %u outputs vary", names[kind],
              (unsigned)varied, (unsigned)cases);
    }
    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint32_t varied = 0;
        compare(DTN_KERNEL_CONV2D_S8, seed, true, &varied);
    }
    return test_result();
}
