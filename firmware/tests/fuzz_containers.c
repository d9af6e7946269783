#include "fuzz_containers.h"

#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

#include "random_call.h"
#include "test.h"

/* Inner steps of the calls that one input may ask for. */
enum { MAX_STEPS = 1 << 22 };

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

bool fuzz_is_bounded(const dtn_model_t *model)
{
    const uint32_t *command = model->program;
    uint64_t steps = 0;
    uint64_t bytes =
        (uint64_t)model->memory_bytes[DTN_SCRATCH] + model->memory_bytes[DTN_PREFETCH] + model->profile_bytes;
    for (uint32_t i = 0; i < model->inputs + model->outputs; i++) {
        bytes += model->words[DTN_HEADER_WORDS + i];
    }
    for (uint32_t i = 0; i + 1 < model->commands && steps <= MAX_STEPS; i++) {
        steps += dtn_opcode(command[0]) == DTN_OPCODE_CALL ? call_steps(command) : 1;
        command += dtn_length(command[0]);
    }
    return steps <= MAX_STEPS && bytes <= FUZZ_MAX_BLOCK;
}

/* The copy that each channel has yet to make; none when `size` is 0. */
static struct {
    uint8_t *dst;
    const uint8_t *src;
    uint32_t size;
} in_flight[DTN_CHANNELS];

/* Copies as late as the API allows. Until then nothing may touch the bytes, and the address sanitizer sees to it. */
static void copy_later(void *dst, void *src, uint32_t size, uint32_t channel)
{
    uint8_t *to = (uint8_t *)dst;
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        if (in_flight[i].size == 0) {
            continue;
        }
        if (i == channel || (to < in_flight[i].dst + in_flight[i].size && in_flight[i].dst < to + size)) {
            abort();
        }
    }
    in_flight[channel].dst = to;
    in_flight[channel].src = (const uint8_t *)src;
    in_flight[channel].size = size;
    ASAN_POISON_MEMORY_REGION(dst, size);
}

static void copy_now(uint32_t channel)
{
    ASAN_UNPOISON_MEMORY_REGION(in_flight[channel].dst, in_flight[channel].size);
    if (in_flight[channel].size != 0) {
        memcpy(in_flight[channel].dst, in_flight[channel].src, in_flight[channel].size);
        in_flight[channel].size = 0;
    }
}

void fuzz_late_copies(void)
{
    NeutronConfig hooks = {copy_later, copy_now};
    if (neutronSetConfig(&hooks) != ENONE) {
        abort();
    }
}

void fuzz_no_copy_left(void)
{
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        if (in_flight[channel].size != 0) {
            abort();
        }
    }
}

/* Each channel's own bytes at the start of the prefetch area or of scratch. */
enum { SLOT_BYTES = DTN_ALIGNMENT, SLOTS_BYTES = SLOT_BYTES * DTN_CHANNELS };

/* Makes the first command, a fetch, copy all weights, behind what is there, and lets the calls of `build` read their
 * constants from the prefetch area or scratch instead. */
static void prefetch_constants(build_t *build, uint32_t area)
{
    uint32_t *bytes = area == DTN_REGION_SCRATCH ? &build->scratch_bytes : &build->prefetch_bytes;
    uint32_t start = *bytes;
    *bytes += build->weights_bytes;
    build->stream[3] = start;
    build->stream[4] = build->weights_bytes;
    for (uint32_t at = 0; at < build->stream_words; at += build->stream[at] >> 16) {
        uint32_t operands = (build->stream[at] & 0xFFU) == DTN_OPCODE_CALL ? build->stream[at + 1] >> 16 & 0xFFU : 0;
        for (uint32_t i = 0; i < operands; i++) {
            uint32_t *region = &build->stream[at + 3 + i * DTN_OPERAND_WORDS];
            if (*region == DTN_REGION_WEIGHTS) {
                region[0] = area;
                region[1] += start;
            }
        }
    }
}

/* On some channels a fetch, on some a wait; bit c of `busy` says that channel c has a fetch in flight. */
static void random_flights(build_t *build, uint64_t *state, uint32_t flag, uint32_t *busy)
{
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        bool is_busy = (*busy >> channel & 1U) != 0;
        if (test_between(state, 0, 2) != 0) {
            continue;
        }
        if (is_busy) {
            build_wait(build, channel);
        } else {
            build_fetch(build, channel | flag, 0, SLOT_BYTES * channel, SLOT_BYTES);
        }
        *busy ^= UINT32_C(1) << channel;
    }
}

/* Gives most inputs and outputs places in scratch, behind what is there. */
static void random_places(build_t *build, uint64_t *state, uint32_t *places)
{
    for (uint32_t i = 0; i < build->inputs + build->outputs; i++) {
        uint32_t bytes = i < build->inputs ? build->input_bytes[i] : build->output_bytes[i - build->inputs];
        places[i] = test_between(state, 0, 3) == 0 ? DTN_ELSEWHERE : build_scratch(build, bytes).offset;
    }
    build->places = places;
}

void fuzz_container(build_t *build, uint64_t *state)
{
    uint32_t places[2 * BUILD_MAX_TENSORS];
    bool prefetch = test_between(state, 0, 2) == 0;
    uint32_t area = prefetch && test_between(state, 0, 1) == 0 ? DTN_REGION_SCRATCH : DTN_REGION_PREFETCH;
    uint32_t flag = area == DTN_REGION_SCRATCH ? DTN_FETCH_TO_SCRATCH : 0;
    uint32_t busy = 0;
    build_start(build);
    build->profiling = test_between(state, 0, 2) == 0;
    if (prefetch) {
        uint32_t channel = (uint32_t)test_between(state, 0, 3);
        *(area == DTN_REGION_SCRATCH ? &build->scratch_bytes : &build->prefetch_bytes) = SLOTS_BYTES;
        build_fetch(build, channel | flag, 0, 0, 0);
        build_wait(build, channel);
        build_constant(build, NULL, SLOT_BYTES);
    }
    for (int32_t calls = test_between(state, 1, 3); calls > 0; calls--) {
        if (prefetch) {
            random_flights(build, state, flag, &busy);
        }
        random_call(build, (uint32_t)test_between(state, 1, DTN_KERNEL_KINDS - 1), state);
    }
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        if ((busy >> channel & 1U) != 0) {
            build_wait(build, channel);
        }
    }
    if (prefetch) {
        prefetch_constants(build, area);
    }
    if (test_between(state, 0, 1) == 0) {
        random_places(build, state, places);
    }
    build_finish(build);
    build->places = NULL;
}

uint32_t fuzz_edge_word(uint64_t *state, uint32_t old)
{
    static const uint32_t words[] = {0,          1,          2,          16,         127,        128,
                                     255,        256,        0xFFFF,     0x10000,    0x10001,    0x7FFFFFFF,
                                     0x80000000, 0xFFFFFFF0, 0xFFFFFFFF, 0xFFFFFF80, 0x00800000, 0x40000000};
    switch (test_between(state, 0, 4)) {
    case 0:
        return words[test_between(state, 0, (int32_t)(sizeof words / sizeof words[0]) - 1)];
    case 1:
        return old + (uint32_t)test_between(state, -16, 16);
    case 2:
        return old ^ UINT32_C(1) << test_between(state, 0, 31);
    case 3:
        return old * (uint32_t)test_between(state, 0, 5);
    default:
        return (uint32_t)test_random(state);
    }
}
