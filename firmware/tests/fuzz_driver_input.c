/*
 * Inputs of the driver's fuzz target: valid containers of random calls, and mutations that know where words are.
 */
#include "fuzz_driver.h"

#include <string.h>

#include "fuzz_containers.h"
#include "test.h"

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

/* Moves an input or output of a container that has places to somewhere in scratch, where others may be. */
static void move_tensor(uint64_t *state, uint8_t *input, size_t size)
{
    uint32_t words[DTN_HEADER_WORDS];
    if (size < FUZZ_PREFIX + sizeof words) {
        return;
    }
    memcpy(words, input + FUZZ_PREFIX, sizeof words);
    bool profiling = (words[DTN_HEADER_FLAGS] & DTN_FLAG_PROFILING) != 0;
    uint32_t inputs = words[profiling ? DTN_LAYOUT_B_INPUTS : DTN_LAYOUT_A_INPUTS];
    uint32_t outputs = words[profiling ? DTN_LAYOUT_B_OUTPUTS : DTN_LAYOUT_A_OUTPUTS];
    uint32_t scratch = words[DTN_HEADER_SCRATCH_BYTES] / DTN_ALIGNMENT;
    if ((words[DTN_HEADER_FLAGS] & DTN_FLAG_PLACES) == 0 || inputs > DTN_MAX_TENSORS || outputs > DTN_MAX_TENSORS ||
        inputs + outputs == 0 || scratch > FUZZ_MAX_BLOCK) {
        return;
    }
    uint32_t tensors = inputs + outputs;
    uint32_t place = DTN_ALIGNMENT * (uint32_t)test_between(state, 0, (int32_t)scratch);
    size_t at = FUZZ_PREFIX +
                (DTN_HEADER_WORDS + tensors + (uint32_t)test_between(state, 0, (int32_t)tensors - 1)) * DTN_WORD_BYTES;
    if (at + sizeof place <= size) {
        memcpy(input + at, &place, sizeof place);
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
        } else if (choice < 7) {
            move_tensor(state, input, size);
        } else {
            size_t word = (size_t)test_between(state, 0, (int32_t)(microcode_bytes / DTN_WORD_BYTES) - 1);
            size_t at = FUZZ_PREFIX + word * DTN_WORD_BYTES;
            uint32_t value;
            if (at + sizeof value <= size) {
                memcpy(&value, input + at, sizeof value);
                value = fuzz_edge_word(state, value);
                memcpy(input + at, &value, sizeof value);
            }
        }
    }
    return size;
}

size_t fuzz_valid(uint64_t *state, uint8_t *input)
{
    build_t build;
    fuzz_container(&build, state);
    /* One in eight without right CRCs. */
    uint8_t mode = (uint8_t)((test_between(state, 0, 7) == 0 ? 0U : 1U) | (test_random(state) >> 60 & 14U));
    size_t size = serialise(&build, mode, input);
    build_free(&build);
    return size;
}
