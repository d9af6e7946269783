/* Inputs of the fuzz target of `dtn_cm_decompress`: streams of random codes and palettes, and mutations of them. */
#include <string.h>

#include "fuzz_target.h"
#include "test.h"

enum { FORM = 0, COUNT = 4, STREAM = 8, PALETTE = 16, SYMBOLS = 256, LENGTHS = SYMBOLS / 2, LONGEST = 15 };
enum { MAX_COUNT = 600 };

/* Draws the lengths of a complete code, by splitting codes in two, for symbols in a random order. */
static void draw_lengths(uint64_t *state, uint8_t *lengths)
{
    uint8_t order[SYMBOLS], leaves[SYMBOLS] = {1, 1};
    for (int32_t i = 0; i < SYMBOLS; i++) {
        const int32_t other = test_between(state, 0, i);
        order[i] = order[other];
        order[other] = (uint8_t)i;
    }
    int32_t count = 2;
    for (int32_t splits = test_between(state, 0, SYMBOLS - 2); splits > 0; splits--) {
        const int32_t leaf = test_between(state, 0, count - 1) / test_between(state, 1, 3);
        if (leaves[leaf] < LONGEST) {
            leaves[leaf]++;
            leaves[count++] = leaves[leaf];
        }
    }
    memset(lengths, 0, SYMBOLS);
    for (int32_t i = 0; i < count; i++) {
        lengths[order[i]] = leaves[i];
    }
}

static void draw_codes(const uint8_t *lengths, uint16_t *codes)
{
    uint32_t code = 0;
    for (uint32_t length = 1; length <= LONGEST; length++) {
        code *= 2;
        for (uint32_t symbol = 0; symbol < SYMBOLS; symbol++) {
            if (lengths[symbol] == length) {
                codes[symbol] = (uint16_t)code++;
            }
        }
    }
}

static size_t draw_huffman(uint64_t *state, uint32_t count, uint8_t *stream)
{
    uint8_t lengths[SYMBOLS];
    uint16_t codes[SYMBOLS];
    draw_lengths(state, lengths);
    draw_codes(lengths, codes);
    for (size_t i = 0; i < LENGTHS; i++) {
        stream[i] = (uint8_t)(lengths[2 * i] | lengths[2 * i + 1] << 4);
    }
    size_t bits = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t symbol;
        do {
            symbol = (uint32_t)test_between(state, 0, SYMBOLS - 1);
        } while (lengths[symbol] == 0);
        for (uint32_t bit = lengths[symbol]; bit-- > 0; bits++) {
            uint8_t *byte = &stream[LENGTHS + bits / 8];
            *byte = (uint8_t)((bits % 8 == 0 ? 0 : *byte) | ((uint32_t)codes[symbol] >> bit & 1U) << (7 - bits % 8));
        }
    }
    return LENGTHS + (bits + 7) / 8;
}

size_t fuzz_valid(uint64_t *state, uint8_t *input)
{
    const uint32_t form = (uint32_t)test_between(state, 0, 3) > 0, count = (uint32_t)test_between(state, 0, MAX_COUNT);
    memcpy(input + FORM, &form, sizeof form);
    memcpy(input + COUNT, &count, sizeof count);
    if (form > 0) {
        return STREAM + draw_huffman(state, count, input + STREAM);
    }
    const size_t size = STREAM + PALETTE + (count + 1) / 2;
    for (size_t i = STREAM; i < size; i++) {
        input[i] = (uint8_t)test_random(state);
    }
    return size;
}

size_t fuzz_mutate(uint64_t *state, uint8_t *input, size_t size)
{
    for (int32_t changes = test_between(state, 1, 3); changes > 0; changes--) {
        const int32_t kind = test_between(state, 0, 9);
        if (kind == 0) {
            size = (size_t)test_between(state, 0, (int32_t)size);
        } else if (size > 0) {
            const size_t first = kind < 3 ? FORM : STREAM; /* mostly the stream */
            const int32_t last = kind < 3 && size > STREAM ? STREAM - 1 : (int32_t)size - 1;
            const size_t at = (size_t)test_between(state, last < (int32_t)first ? 0 : (int32_t)first, last);
            input[at] ^= (uint8_t)(1U << test_between(state, 0, 7));
        }
    }
    return size;
}
