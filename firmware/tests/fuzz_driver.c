/*
 * Fuzz target: any bytes as a container, through prepare and, if that accepts them, run.
 *
 * Input: u8 mode (bit 0: make the CRCs right, so that the checks behind them are reached; bit 1: run with the reference
 * kernels), 3 bytes unused, u32 microcode bytes, u32 weights bytes, then microcode, weights and kernels. Blocks are
 * copied to memory of just their size, so that the address sanitizer sees a read beyond; fetches copy when they are
 * waited for, and bytes in flight are out of bounds. The driver may trust that a
 * block is as large as its own sizes say (the delegate checks that), so sizes that lie are corrected first.
 */
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

#include "../src/driver/model.h"
#include "builder.h"
#include "fuzz_driver.h"
#include "tables.h"

/* Work and memory that one input may ask for; both bound the fuzzer's time, not the driver. */
enum { MAX_BLOCK = 1 << 20, MAX_STEPS = 1 << 22 };

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

/* An upper bound of the inner steps of a call: bytes written times the bytes that each may read. */
static uint64_t call_steps(const uint32_t *command)
{
    static const uint32_t read_operands[DTN_KERNEL_KINDS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place) [DTN_KERNEL_##NAME] = read,
        DTN_KERNELS(DTN_X)
#undef DTN_X
    };
    uint32_t kind = command[1] & 0xFFFFU;
    uint32_t operands = command[1] >> 16 & 0xFFU;
    uint64_t read = 1;
    uint64_t written = 0;
    for (uint32_t i = 0; i < operands; i++) {
        uint32_t bytes = command[3 + i * DTN_OPERAND_WORDS + 2];
        if (i < read_operands[kind]) {
            read += bytes;
        } else {
            written += bytes;
        }
    }
    const int32_t *params = (const int32_t *)(command + 3 + operands * DTN_OPERAND_WORDS);
    if (kind == DTN_KERNEL_COPY_S8) {
        uint64_t elements = 1;
        for (int i = 0; i < 6; i++) {
            elements *= elements > MAX_STEPS ? 1 : (uint64_t)params[i];
        }
        return elements;
    }
    return kind == DTN_KERNEL_FILL_S8 || kind == DTN_KERNEL_LUT_S8 || kind == DTN_KERNEL_ADD_S8 ||
                   kind == DTN_KERNEL_MUL_S8
               ? written
               : written * read;
}

static bool is_bounded(const dtn_model_t *model)
{
    const uint32_t *command = model->words + model->first_command;
    uint64_t steps = 0;
    uint64_t bytes = (uint64_t)model->scratch_bytes + model->prefetch_bytes + model->profile_bytes;
    for (uint32_t i = 0; i < model->inputs + model->outputs; i++) {
        bytes += model->words[DTN_HEADER_WORDS + i];
    }
    for (uint32_t i = 0; i + 1 < model->commands && steps <= MAX_STEPS; i++) {
        steps += dtn_opcode(command[0]) == DTN_OPCODE_CALL ? call_steps(command) : 1;
        command += dtn_length(command[0]);
    }
    return steps <= MAX_STEPS && bytes <= MAX_BLOCK;
}

/* The copy that each channel has yet to make; none when `size` is 0. */
static struct {
    uint8_t *dst;
    const uint8_t *src;
    uint32_t size;
} flights[DTN_CHANNELS];

/* Copies as late as the API allows. Until then nothing may touch the bytes, and the address sanitizer sees to it. */
static void copy_later(void *dst, void *src, uint32_t size, uint32_t channel)
{
    uint8_t *to = (uint8_t *)dst;
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        if (flights[i].size == 0) {
            continue;
        }
        if (i == channel || (to < flights[i].dst + flights[i].size && flights[i].dst < to + size)) {
            abort();
        }
    }
    flights[channel].dst = to;
    flights[channel].src = (const uint8_t *)src;
    flights[channel].size = size;
    ASAN_POISON_MEMORY_REGION(dst, size);
}

static void copy_now(uint32_t channel)
{
    ASAN_UNPOISON_MEMORY_REGION(flights[channel].dst, flights[channel].size);
    if (flights[channel].size != 0) {
        memcpy(flights[channel].dst, flights[channel].src, flights[channel].size);
        flights[channel].size = 0;
    }
}

static NeutronError run_with_late_copies(const dtn_model_t *model, const NeutronDataConfig *data)
{
    NeutronConfig hooks = {copy_later, copy_now};
    NeutronError error = neutronSetConfig(&hooks);
    if (error == ENONE) {
        error = dtn_model_run(model, data);
    }
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        if (flights[channel].size != 0) {
            abort(); /* the copy would outlive the run */
        }
    }
    return error;
}

/* Runs the accepted model on buffers of just the sizes that it states. */
static fuzz_outcome_t run(const dtn_model_t *model)
{
    void *memory[2 * DTN_MAX_TENSORS + 3];
    const void *inputs[DTN_MAX_TENSORS + 1];
    void *outputs[DTN_MAX_TENSORS + 3];
    const uint32_t *sizes = model->words + DTN_HEADER_WORDS;
    uint32_t blocks = 0;
    /* Callers' buffers start anywhere. */
    for (uint32_t i = 0; i < model->inputs; i++) {
        uint8_t *bytes = (uint8_t *)(memory[blocks++] = build_alloc(sizes[i] + 1)) + 1;
        memset(bytes, (int)(0x51U + i), sizes[i]);
        inputs[i] = bytes;
    }
    for (uint32_t i = 0; i < model->outputs; i++) {
        outputs[i] = (uint8_t *)(memory[blocks++] = build_alloc(sizes[model->inputs + i] + 1)) + 1;
    }
    outputs[model->outputs] = memory[blocks++] = build_alloc(model->scratch_bytes);
    outputs[model->outputs + 1] = memory[blocks++] = build_alloc(model->profile_bytes);
    memory[blocks++] = build_alloc(model->prefetch_bytes);
    NeutronDataConfig data = {inputs, outputs, NULL, memory[blocks - 1]};
    NeutronError error = run_with_late_copies(model, &data);
    for (uint32_t i = 0; i < blocks; i++) {
        free(memory[i]);
    }
    return error == ENONE ? FUZZ_RAN : FUZZ_FAILED;
}

fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size)
{
    if (size < FUZZ_PREFIX || size > MAX_BLOCK) {
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
    if (dtn_model_check(&config, (data[0] & 2U) != 0 ? table_ref : table_fast, &model) == ENONE) {
        outcome = is_bounded(&model) ? run(&model) : FUZZ_TOO_LARGE;
    }
    build_free(&build);
    return outcome;
}
