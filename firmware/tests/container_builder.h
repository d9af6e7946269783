/**
 * @file
 * Writes containers (spec/microcode.md) for tests, by appending; sizes are fixed and ample, overruns abort.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/microcode.h"
#include "NeutronDriver.h"

enum { BUILD_MAX_WORDS = 4096, BUILD_MAX_WEIGHTS = 1 << 16, BUILD_MAX_TENSORS = 255, BUILD_ALIGNMENT = 16 };

/** One operand, as in the microcode. */
typedef struct {
    uint32_t region;
    uint32_t index;
    uint32_t offset;
    uint32_t bytes;
} build_ref_t;

/** A container being built; `microcode`, `weights` and `kernels` are the blocks after `build_finish`. */
typedef struct {
    uint32_t *microcode;
    uint8_t *weights;
    uint32_t *kernels;
    uint32_t microcode_bytes;
    uint32_t weights_bytes;
    uint32_t scratch_bytes;
    uint32_t prefetch_bytes;
    uint32_t resident_bytes;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t commands;
    uint32_t input_bytes[BUILD_MAX_TENSORS];
    uint32_t output_bytes[BUILD_MAX_TENSORS];
    uint32_t stream[BUILD_MAX_WORDS];
    uint32_t stream_words;
    uint32_t listed;
    bool profiling;
    const uint32_t *places; /**< of each input, then of each output, which are to be added afterwards; or NULL */
} build_t;

/** Starts an empty container; `build_free` gives its memory back. */
void build_start(build_t *build);
void build_free(build_t *build);

/** Add a model input, output, scratch block, or constant of `bytes` bytes; `data` NULL fills with zeros. */
build_ref_t build_input(build_t *build, uint32_t bytes);
build_ref_t build_output(build_t *build, uint32_t bytes);
build_ref_t build_scratch(build_t *build, uint32_t bytes);
build_ref_t build_constant(build_t *build, const void *data, uint32_t bytes);

/** Append commands. `params` is the kernel's record, `operands` as many as the kernel has. */
void build_call(build_t *build, uint32_t kind, const build_ref_t *operands, const void *params);
void build_fetch(build_t *build, uint32_t channel, uint32_t from, uint32_t to, uint32_t bytes);
void build_fetch_to_scratch(build_t *build, uint32_t channel, uint32_t from, uint32_t to, uint32_t bytes);
void build_wait(build_t *build, uint32_t channel);

/** Appends `end` and writes the blocks. */
void build_finish(build_t *build);

/** Updates the CRCs after changes of the blocks. */
void build_seal(build_t *build);

/** The blocks for neutronModelPrepare. */
NeutronModelConfig build_config(const build_t *build);

/** Buffers for one run; inputs and outputs start at an odd address, each with just its bytes. */
typedef struct {
    void *inputs[BUILD_MAX_TENSORS];
    void *outputs[BUILD_MAX_TENSORS + 3];
    void *prefetch;
    void *memory[2 * BUILD_MAX_TENSORS + 3];
    uint32_t blocks;
    NeutronDataConfig config;
} build_buffers_t;

/** Allocates and fills the inputs from `seed`; the same seed gives the same bytes. */
void build_buffers(const build_t *build, uint64_t seed, build_buffers_t *buffers);
void build_buffers_free(build_buffers_t *buffers);

/** Memory of `bytes` bytes (at least 1) aligned to 16, zeroed; aborts when there is none. */
void *build_alloc(uint32_t bytes);
