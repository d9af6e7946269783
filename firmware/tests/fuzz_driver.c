/*
 * Fuzz target: any bytes as a container, through prepare and, if that accepts them, run.
 *
 * Input: u8 mode, 3 bytes unused, u32 microcode bytes, u32 weights bytes, then microcode, weights and kernels. Mode bit
 * 0: correct the CRCs, so that later checks are reached; bit 1: run the reference kernels; bit 2: else with panels of
 * the weights; bit 3: inputs and outputs may be in scratch. Blocks are copied to memory of just their size, so that the
 * address sanitizer sees a read beyond; fetches copy when they are waited for, and bytes in flight are out of bounds.
 * The driver may trust that a block is as large as its own sizes say (the delegate and the executor check that), so
 * sizes that lie are corrected first.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/driver/driver.h"
#include "../src/driver/model.h"
#include "container_builder.h"
#include "deuteron/levels.h"
#include "fuzz_containers.h"
#include "fuzz_driver.h"
#include "reference_kernels.h"

static uint32_t read_word(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint32_t round_down(uint32_t bytes)
{
    return bytes / DTN_ALIGNMENT * DTN_ALIGNMENT;
}

/* Runs the accepted model on buffers of just the sizes that it states; inputs and outputs that have places in scratch
 * are there or have buffers of their own. */
static fuzz_outcome_t run(const dtn_model_t *model, bool in_place)
{
    void *memory[2 * DTN_MAX_TENSORS + 3];
    void *tensors[2 * DTN_MAX_TENSORS + 3];
    const uint32_t *sizes = model->words + DTN_HEADER_WORDS;
    uint32_t count = model->inputs + model->outputs;
    uint32_t blocks = 0;
    uint8_t *scratch = (uint8_t *)(memory[blocks++] = build_alloc(model->memory_bytes[DTN_SCRATCH]));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = in_place ? dtn_place(model, i) : DTN_ELSEWHERE;
        /* Callers' buffers start anywhere. */
        tensors[i] =
            place != DTN_ELSEWHERE ? scratch + place : (uint8_t *)(memory[blocks++] = build_alloc(sizes[i] + 1)) + 1;
        if (i < model->inputs) {
            memset(tensors[i], (int)(0x51U + i), sizes[i]);
        }
    }
    tensors[count] = scratch;
    tensors[count + 1] = memory[blocks++] = build_alloc(model->profile_bytes);
    memory[blocks++] = build_alloc(model->memory_bytes[DTN_PREFETCH]);
    NeutronDataConfig data = {(const void **)(void *)tensors, tensors + model->inputs, NULL, memory[blocks - 1]};
    fuzz_late_copies();
    NeutronError error = dtn_model_run(model, &data, false);
    fuzz_no_copy_left();
    for (uint32_t i = 0; i < blocks; i++) {
        free(memory[i]);
    }
    return error == ENONE ? FUZZ_RAN : FUZZ_FAILED;
}

/* Runs the accepted model with its weights in the form of the level in use, in memory of just that size. */
static fuzz_outcome_t run_with_panels(const NeutronModelConfig *config, bool in_place)
{
    NeutronModelHandle handle = NULL;
    if (neutronModelPrepare(config, &handle) != ENONE) {
        return FUZZ_FAILED;
    }
    size_t bytes = dtn_panel_bytes(handle);
    void *panels = build_alloc((uint32_t)bytes);
    NeutronError error = dtn_use_panels(handle, panels, bytes);
    fuzz_outcome_t outcome = error == ENONE ? run(dtn_model_of(handle), in_place) : FUZZ_FAILED;
    (void)neutronModelUnprepare(handle);
    free(panels);
    return outcome;
}

fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size)
{
    if (size < FUZZ_PREFIX || size > FUZZ_MAX_BLOCK) {
        return FUZZ_REFUSED;
    }
    uint32_t left = (uint32_t)size - FUZZ_PREFIX;
    uint32_t microcode_bytes = round_down(read_word(data + 4) < left ? read_word(data + 4) : left);
    uint32_t weights_bytes =
        read_word(data + 8) < left - microcode_bytes ? read_word(data + 8) : left - microcode_bytes;
    weights_bytes = round_down(weights_bytes);
    if (microcode_bytes < DTN_HEADER_WORDS * DTN_WORD_BYTES) {
        return FUZZ_REFUSED;
    }
    uint32_t kernels_bytes = left - microcode_bytes - weights_bytes;
    build_t build = {0};
    build.microcode_bytes = microcode_bytes;
    build.weights_bytes = weights_bytes;
    build.microcode = (uint32_t *)build_alloc(microcode_bytes);
    build.weights = (uint8_t *)build_alloc(weights_bytes);
    build.kernels = (uint32_t *)build_alloc(DTN_KERNEL_KINDS * DTN_WORD_BYTES);
    memcpy(build.microcode, data + FUZZ_PREFIX, microcode_bytes);
    memcpy(build.weights, data + FUZZ_PREFIX + microcode_bytes, weights_bytes);
    memcpy(build.kernels, data + FUZZ_PREFIX + microcode_bytes + weights_bytes,
           kernels_bytes < DTN_KERNEL_KINDS * DTN_WORD_BYTES ? kernels_bytes : DTN_KERNEL_KINDS * DTN_WORD_BYTES);
    if (build.microcode[DTN_HEADER_MICROCODE_BYTES] > microcode_bytes) {
        build.microcode[DTN_HEADER_MICROCODE_BYTES] = microcode_bytes;
    }
    if (build.microcode[DTN_HEADER_WEIGHTS_BYTES] > weights_bytes) {
        build.microcode[DTN_HEADER_WEIGHTS_BYTES] = weights_bytes;
    }
    if ((data[0] & 1U) != 0) {
        build.microcode_bytes = build.microcode[DTN_HEADER_MICROCODE_BYTES];
        build.weights_bytes = build.microcode[DTN_HEADER_WEIGHTS_BYTES];
        build_seal(&build);
    }
    NeutronModelConfig config = build_config(&build);
    dtn_model_t model;
    fuzz_outcome_t outcome = FUZZ_REFUSED;
    if (dtn_model_check(&config, (data[0] & 2U) != 0 ? table_ref : neutronKernels, &model) == ENONE) {
        bool panels = (data[0] & 6U) == 4;
        bool in_place = (data[0] & 8U) != 0;
        outcome = !fuzz_is_bounded(&model) ? FUZZ_TOO_LARGE
                  : panels                 ? run_with_panels(&config, in_place)
                                           : run(&model, in_place);
    }
    build_free(&build);
    return outcome;
}
