/*
 * Inputs of the fuzz target: valid containers of random calls, and mutations that know where words are.
 */
#include "fuzz_input.h"

#include <string.h>

#include "random_call.h"
#include "test.h"

/* Each channel's own bytes at the start of a prefetch area; what calls read comes after them. */
enum { SLOT_BYTES = DTN_ALIGNMENT, SLOTS_BYTES = SLOT_BYTES * DTN_CHANNELS };

/* Makes the first command, a fetch, copy all weights, and lets the calls of `build` read their constants from the
 * prefetch area instead. */
static void prefetch_constants(build_t *build)
{
    build->prefetch_bytes += build->weights_bytes;
    build->stream[4] = build->weights_bytes;
    for (uint32_t at = 0; at < build->stream_words; at += build->stream[at] >> 16) {
        uint32_t operands = (build->stream[at] & 0xFFU) == DTN_OPCODE_CALL ? build->stream[at + 1] >> 16 & 0xFFU : 0;
        for (uint32_t i = 0; i < operands; i++) {
            uint32_t *region = &build->stream[at + 3 + i * DTN_OPERAND_WORDS];
            if (*region == DTN_REGION_WEIGHTS) {
                region[0] = DTN_REGION_PREFETCH;
                region[1] += SLOTS_BYTES;
            }
        }
    }
}

/* On some channels a fetch, on some a wait; bit c of `busy` says that channel c has a fetch in flight. */
static void random_flights(build_t *build, uint64_t *state, uint32_t *busy)
{
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        bool is_busy = (*busy >> channel & 1U) != 0;
        if (test_between(state, 0, 2) != 0) {
            continue;
        }
        if (is_busy) {
            build_wait(build, channel);
        } else {
            build_fetch(build, channel, 0, SLOT_BYTES * channel, SLOT_BYTES);
        }
        *busy ^= UINT32_C(1) << channel;
    }
}

/* A container of one to three random calls, sometimes profiled, sometimes with prefetched constants and with fetches in
 * flight during the calls. */
static void random_container(build_t *build, uint64_t *state)
{
    bool prefetch = test_between(state, 0, 2) == 0;
    uint32_t busy = 0;
    build_start(build);
    build->profiling = test_between(state, 0, 2) == 0;
    if (prefetch) {
        uint32_t channel = (uint32_t)test_between(state, 0, 3);
        build->prefetch_bytes = SLOTS_BYTES;
        build_fetch(build, channel, 0, SLOTS_BYTES, 0);
        build_wait(build, channel);
        build_constant(build, NULL, SLOT_BYTES);
    }
    for (int32_t calls = test_between(state, 1, 3); calls > 0; calls--) {
        if (prefetch) {
            random_flights(build, state, &busy);
        }
        random_call(build, (uint32_t)test_between(state, 1, DTN_KERNEL_KINDS - 1), state);
    }
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        if ((busy >> channel & 1U) != 0) {
            build_wait(build, channel);
        }
    }
    if (prefetch) {
        prefetch_constants(build);
    }
    build_finish(build);
}

static size_t serialise(const build_t *build, uint8_t mode, uint8_t *input)
{
    uint32_t sizes[3] = {mode, build->microcode_bytes, build->weights_bytes};
    uint32_t kernels_bytes = (build->kernels[0] + 1) * DTN_WORD_BYTES;
    uint8_t *at = input + FUZZ_PREFIX;
    memcpy(input, sizes, sizeof sizes);
    memcpy(at, build->microcode, build->microcode_bytes);
    at += build->microcode_bytes;
    memcpy(at, build->weights, build->weights_bytes);
    at += build->weights_bytes;
    memcpy(at, build->kernels, kernels_bytes);
    return (size_t)(at + kernels_bytes - input);
}

/* A word that is likely to sit on an edge. */
static uint32_t interesting(uint64_t *state, uint32_t old)
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

size_t fuzz_mutate(uint64_t *state, uint8_t *input, size_t size)
{
    uint32_t microcode_bytes = 0;
    if (size >= FUZZ_PREFIX) {
        memcpy(&microcode_bytes, input + 4, sizeof microcode_bytes);
    }
    if (microcode_bytes < DTN_WORD_BYTES || microcode_bytes > size) {
        microcode_bytes = DTN_WORD_BYTES;
    }
    for (int32_t n = test_between(state, 0, 3); n > 0; n--) {
        int32_t choice = test_between(state, 0, 19);
        if (choice == 0) {
            size = (size_t)test_between(state, 0, (int32_t)size);
        } else if (choice < 5 && size != 0) {
            input[test_between(state, 0, (int32_t)size - 1)] = (uint8_t)test_random(state);
        } else {
            size_t word = (size_t)test_between(state, 0, (int32_t)(microcode_bytes / DTN_WORD_BYTES) - 1);
            size_t at = FUZZ_PREFIX + word * DTN_WORD_BYTES;
            uint32_t value;
            if (at + sizeof value <= size) {
                memcpy(&value, input + at, sizeof value);
                value = interesting(state, value);
                memcpy(input + at, &value, sizeof value);
            }
        }
    }
    return size;
}

size_t fuzz_valid(uint64_t *state, uint8_t *input)
{
    build_t build;
    random_container(&build, state);
    /* One in eight without right CRCs. */
    uint8_t mode = (uint8_t)((test_between(state, 0, 7) == 0 ? 0U : 1U) | (test_random(state) >> 62 & 2U));
    size_t size = serialise(&build, mode, input);
    build_free(&build);
    return size;
}
