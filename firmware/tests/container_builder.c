#define _POSIX_C_SOURCE 200809L

#include "container_builder.h"

#include <stdlib.h>
#include <string.h>

#include "deuteron/crc32.h"
#include "test.h"

static uint32_t round_up(uint32_t bytes)
{
    return (bytes + BUILD_ALIGNMENT - 1) / BUILD_ALIGNMENT * BUILD_ALIGNMENT;
}

static void need(bool condition)
{
    if (!condition) {
        abort();
    }
}

void *build_alloc(uint32_t bytes)
{
    void *memory = NULL;
    size_t size = bytes == 0 ? 1 : bytes;
    need(posix_memalign(&memory, BUILD_ALIGNMENT, size) == 0);
    memset(memory, 0, size);
    return memory;
}

void build_start(build_t *build)
{
    memset(build, 0, sizeof *build);
    build->weights = (uint8_t *)build_alloc(BUILD_MAX_WEIGHTS);
}

void build_free(build_t *build)
{
    free(build->microcode);
    free(build->weights);
    free(build->kernels);
    memset(build, 0, sizeof *build);
}

build_ref_t build_input(build_t *build, uint32_t bytes)
{
    need(build->inputs < BUILD_MAX_TENSORS);
    build->input_bytes[build->inputs] = bytes;
    build_ref_t ref = {DTN_REGION_INPUT, build->inputs++, 0, bytes};
    return ref;
}

build_ref_t build_output(build_t *build, uint32_t bytes)
{
    need(build->outputs < BUILD_MAX_TENSORS);
    build->output_bytes[build->outputs] = bytes;
    build_ref_t ref = {DTN_REGION_OUTPUT, build->outputs++, 0, bytes};
    return ref;
}

build_ref_t build_scratch(build_t *build, uint32_t bytes)
{
    build_ref_t ref = {DTN_REGION_SCRATCH, 0, build->scratch_bytes, bytes};
    build->scratch_bytes += round_up(bytes);
    return ref;
}

build_ref_t build_constant(build_t *build, const void *data, uint32_t bytes)
{
    build_ref_t ref = {DTN_REGION_WEIGHTS, 0, build->weights_bytes, bytes};
    need(build->weights_bytes + round_up(bytes) <= BUILD_MAX_WEIGHTS);
    if (data != NULL) {
        memcpy(build->weights + build->weights_bytes, data, bytes);
    }
    build->weights_bytes += round_up(bytes);
    return ref;
}

static void append(build_t *build, uint32_t word)
{
    need(build->stream_words < BUILD_MAX_WORDS);
    build->stream[build->stream_words++] = word;
}

void build_call(build_t *build, uint32_t kind, const build_ref_t *operands, const void *params)
{
    static const uint8_t counts[DTN_KERNEL_KINDS][2] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    [DTN_KERNEL_##NAME] = {read + written, words},
        DTN_KERNELS(DTN_X)
#undef DTN_X
    };
    const uint32_t *words = (const uint32_t *)params;
    uint32_t operand_count = counts[kind][0];
    uint32_t param_count = counts[kind][1];
    append(build, DTN_OPCODE_CALL | (3 + operand_count * DTN_OPERAND_WORDS + param_count) << 16);
    append(build, kind | operand_count << 16 | param_count << 24);
    append(build, UINT32_MAX);
    for (uint32_t i = 0; i < operand_count; i++) {
        append(build, operands[i].region | operands[i].index << 8);
        append(build, operands[i].offset);
        append(build, operands[i].bytes);
    }
    for (uint32_t i = 0; i < param_count; i++) {
        append(build, words[i]);
    }
    build->listed |= UINT32_C(1) << kind;
    build->commands++;
}

void build_fetch(build_t *build, uint32_t channel, uint32_t from, uint32_t to, uint32_t bytes)
{
    append(build, DTN_OPCODE_FETCH | UINT32_C(5) << 16);
    append(build, channel);
    append(build, from);
    append(build, to);
    append(build, bytes);
    build->commands++;
}

void build_fetch_to_scratch(build_t *build, uint32_t channel, uint32_t from, uint32_t to, uint32_t bytes)
{
    build_fetch(build, channel | DTN_FETCH_TO_SCRATCH, from, to, bytes);
}

void build_wait(build_t *build, uint32_t channel)
{
    append(build, DTN_OPCODE_WAIT | UINT32_C(2) << 16);
    append(build, channel);
    build->commands++;
}

static void write_header(build_t *build, uint32_t first_command)
{
    uint32_t *words = build->microcode;
    words[DTN_HEADER_MAGIC] = DTN_MAGIC;
    words[DTN_HEADER_DEUTERON_MAGIC] = DTN_DEUTERON_MAGIC;
    words[DTN_HEADER_VERSION] = DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MICROCODE_VERSION_MINOR;
    words[DTN_HEADER_FLAGS] =
        (build->profiling ? DTN_FLAG_PROFILING : 0U) | (build->places != NULL ? DTN_FLAG_PLACES : 0U);
    words[DTN_HEADER_COMMANDS] = build->commands;
    words[DTN_HEADER_MICROCODE_BYTES] = build->microcode_bytes;
    words[DTN_HEADER_WEIGHTS_BYTES] = build->weights_bytes;
    words[DTN_HEADER_SCRATCH_BYTES] = build->scratch_bytes;
    words[DTN_HEADER_FIRST_COMMAND] = first_command;
    words[DTN_HEADER_RESIDENT_BYTES] = build->resident_bytes;
    if (build->profiling) {
        words[DTN_LAYOUT_B_PROFILE_BYTES] = build->commands * DTN_PROFILE_RECORD_BYTES;
        words[DTN_LAYOUT_B_PREFETCH_BYTES] = build->prefetch_bytes;
        words[DTN_LAYOUT_B_INPUTS] = build->inputs;
        words[DTN_LAYOUT_B_OUTPUTS] = build->outputs;
    } else {
        words[DTN_LAYOUT_A_PREFETCH_BYTES] = build->prefetch_bytes;
        words[DTN_LAYOUT_A_INPUTS] = build->inputs;
        words[DTN_LAYOUT_A_OUTPUTS] = build->outputs;
    }
    memcpy(words + DTN_HEADER_WORDS, build->input_bytes, build->inputs * DTN_WORD_BYTES);
    memcpy(words + DTN_HEADER_WORDS + build->inputs, build->output_bytes, build->outputs * DTN_WORD_BYTES);
    if (build->places != NULL) {
        uint32_t tensors = build->inputs + build->outputs;
        memcpy(words + DTN_HEADER_WORDS + tensors, build->places, tensors * DTN_WORD_BYTES);
    }
}

void build_finish(build_t *build)
{
    append(build, DTN_OPCODE_END | UINT32_C(1) << 16);
    build->commands++;
    if (build->weights_bytes == 0) {
        build_constant(build, NULL, BUILD_ALIGNMENT);
    }
    uint32_t tables = (build->inputs + build->outputs) * (build->places != NULL ? 2 : 1);
    uint32_t first_command = round_up((DTN_HEADER_WORDS + tables) * DTN_WORD_BYTES);
    build->microcode_bytes = round_up(first_command + build->stream_words * DTN_WORD_BYTES);
    build->microcode = (uint32_t *)build_alloc(build->microcode_bytes);
    write_header(build, first_command);
    memcpy(build->microcode + first_command / DTN_WORD_BYTES, build->stream, build->stream_words * DTN_WORD_BYTES);
    build->kernels = (uint32_t *)build_alloc(DTN_KERNEL_KINDS * DTN_WORD_BYTES);
    for (uint32_t kind = 1; kind < DTN_KERNEL_KINDS; kind++) {
        if ((build->listed & (UINT32_C(1) << kind)) != 0) {
            build->kernels[++build->kernels[0]] = kind;
        }
    }
    /* Just as large as it says, so that the address sanitizer sees every read beyond. */
    uint8_t *exact = (uint8_t *)build_alloc(build->weights_bytes);
    memcpy(exact, build->weights, build->weights_bytes);
    free(build->weights);
    build->weights = exact;
    build_seal(build);
}

void build_seal(build_t *build)
{
    build->microcode[DTN_HEADER_WEIGHTS_CRC] = dtn_crc32(0, build->weights, build->weights_bytes);
    build->microcode[DTN_HEADER_CRC] = 0;
    build->microcode[DTN_HEADER_CRC] = dtn_crc32(0, build->microcode, build->microcode_bytes);
}

NeutronModelConfig build_config(const build_t *build)
{
    NeutronModelConfig config = {build->microcode, build->weights, build->kernels, 60};
    return config;
}

static void *keep(build_buffers_t *buffers, void *memory)
{
    buffers->memory[buffers->blocks++] = memory;
    return memory;
}

void build_buffers(const build_t *build, uint64_t seed, build_buffers_t *buffers)
{
    uint64_t state = seed | 1U;
    memset(buffers, 0, sizeof *buffers);
    for (uint32_t i = 0; i < build->inputs; i++) {
        uint8_t *bytes = (uint8_t *)keep(buffers, build_alloc(build->input_bytes[i] + 1)) + 1;
        for (uint32_t j = 0; j < build->input_bytes[i]; j++) {
            bytes[j] = (uint8_t)test_random(&state);
        }
        buffers->inputs[i] = bytes;
    }
    for (uint32_t i = 0; i < build->outputs; i++) {
        buffers->outputs[i] = (uint8_t *)keep(buffers, build_alloc(build->output_bytes[i] + 1)) + 1;
    }
    buffers->outputs[build->outputs] = keep(buffers, build_alloc(build->scratch_bytes));
    buffers->outputs[build->outputs + 1] = keep(buffers, build_alloc(build->commands * DTN_PROFILE_RECORD_BYTES));
    buffers->prefetch = keep(buffers, build_alloc(build->prefetch_bytes));
    buffers->config.inputs = (const void **)(void *)buffers->inputs;
    buffers->config.outputs = buffers->outputs;
    buffers->config.scratchWeights = buffers->prefetch;
}

void build_buffers_free(build_buffers_t *buffers)
{
    for (uint32_t i = 0; i < buffers->blocks; i++) {
        free(buffers->memory[i]);
    }
}
