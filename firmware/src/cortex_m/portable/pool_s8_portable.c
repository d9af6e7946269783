#include <string.h>

#include "../element_loops.h"

enum { WORD = 4, BLOCK = 2 * WORD };

static uint32_t word_at(const int8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/*
 * Four channels at once: bytes with 128 added are 0 to 255, of which each half of a word can add up 256. The sums of
 * the first and third channel lie in one word, those of the others in another.
 */
typedef struct {
    uint32_t even;
    uint32_t odd;
} four_t;

static void add_word(four_t *four, const int8_t *bytes)
{
    uint32_t word = word_at(bytes) ^ UINT32_C(0x80808080);
    four->even += word & UINT32_C(0x00FF00FF);
    four->odd += word >> 8 & UINT32_C(0x00FF00FF);
}

static void put_sums(const four_t *four, int32_t excess, int32_t *sums)
{
    sums[0] += (int32_t)(four->even & 0xFFFFU) - excess;
    sums[1] += (int32_t)(four->odd & 0xFFFFU) - excess;
    sums[2] += (int32_t)(four->even >> 16) - excess;
    sums[3] += (int32_t)(four->odd >> 16) - excess;
}

static void add_block(const dtn_cm_pixels_t *window, size_t channel, int32_t *sums)
{
    four_t first = {0, 0};
    four_t second = {0, 0};
    const int8_t *row = window->pixels + channel;
    for (size_t y = 0; y < window->rows; y++, row += window->row_step) {
        const int8_t *pixel = row;
        for (size_t x = 0; x < window->columns; x++, pixel += window->column_step) {
            add_word(&first, pixel);
            add_word(&second, pixel + WORD);
        }
    }
    int32_t excess = (int32_t)(window->rows * window->columns) * -INT8_MIN;
    put_sums(&first, excess, sums + channel);
    put_sums(&second, excess, sums + channel + WORD);
}

void dtn_cm_add_pixels(const dtn_cm_pixels_t *window, int32_t *sums, size_t count)
{
    size_t channel = 0;
    for (; channel + BLOCK <= count; channel += BLOCK) {
        add_block(window, channel, sums);
    }
    for (; channel < count; channel++) {
        const int8_t *row = window->pixels + channel;
        for (size_t y = 0; y < window->rows; y++, row += window->row_step) {
            for (size_t x = 0; x < window->columns; x++) {
                sums[channel] += row[x * window->column_step];
            }
        }
    }
}

static int8_t larger(int8_t a, int8_t b)
{
    return a > b ? a : b;
}

static int8_t smaller(int8_t a, int8_t b)
{
    return a < b ? a : b;
}

/* Four channels; those after `last` repeat it. */
static void four_largest(const dtn_cm_pixels_t *window, size_t last, int8_t lo, int8_t hi, int8_t *out)
{
    size_t second = last < 1 ? last : 1;
    size_t third = last < 2 ? last : 2;
    int8_t a = lo;
    int8_t b = lo;
    int8_t c = lo;
    int8_t d = lo;
    const int8_t *row = window->pixels;
    for (size_t y = 0; y < window->rows; y++, row += window->row_step) {
        const int8_t *pixel = row;
        for (size_t x = 0; x < window->columns; x++, pixel += window->column_step) {
            a = larger(a, pixel[0]);
            b = larger(b, pixel[second]);
            c = larger(c, pixel[third]);
            d = larger(d, pixel[last]);
        }
    }
    out[0] = smaller(a, hi);
    out[second] = smaller(b, hi);
    out[third] = smaller(c, hi);
    out[last] = smaller(d, hi);
}

void dtn_cm_largest_pixels(const dtn_cm_pixels_t *window, int8_t lo, int8_t hi, int8_t *out, size_t count)
{
    dtn_cm_pixels_t four = *window;
    for (; count != 0; four.pixels += WORD, out += WORD) {
        size_t channels = count < WORD ? count : WORD;
        four_largest(&four, channels - 1, lo, hi, out);
        count -= channels;
    }
}
