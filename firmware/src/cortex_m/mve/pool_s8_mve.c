#include <arm_mve.h>

#include "../element_loops.h"

/* Lanes of 16 bits, of which each can add up DTN_CM_MOST_PIXELS values, and of 8 bits. */
enum { LANES_32 = 4, LANES_16 = 8, LANES_8 = 16, BLOCK = 2 * LANES_16 };

/* Adds up to LANES_16 sums to those of the channels. */
static void put_sums(int16x8_t sums, int32_t *to, size_t count)
{
    int16_t narrow[LANES_16];
    vst1q_s16(narrow, sums);
    for (size_t lane = 0; lane < count; lane += LANES_32) {
        mve_pred16_t lanes = vctp32q(count - lane);
        int32x4_t wide = vaddq_s32(vld1q_z_s32(to + lane, lanes), vldrhq_s32(narrow + lane));
        vst1q_p_s32(to + lane, wide, lanes);
    }
}

/* Up to LANES_16 channels. */
static void add_some(const dtn_cm_pixels_t *window, size_t channel, int32_t *sums, size_t count)
{
    mve_pred16_t lanes = vctp16q(count);
    int16x8_t sum = vdupq_n_s16(0);
    const int8_t *row = window->pixels + channel;
    for (size_t y = window->rows; y != 0; y--, row += window->row_step) {
        const int8_t *pixel = row;
        for (size_t x = window->columns; x != 0; x--, pixel += window->column_step) {
            sum = vaddq_s16(sum, vldrbq_z_s16(pixel, lanes));
        }
    }
    put_sums(sum, sums + channel, count);
}

/* Twice LANES_16 channels. */
static void add_block(const dtn_cm_pixels_t *window, size_t channel, int32_t *sums)
{
    int16x8_t first = vdupq_n_s16(0);
    int16x8_t second = first;
    const int8_t *row = window->pixels + channel;
    for (size_t y = window->rows; y != 0; y--, row += window->row_step) {
        const int8_t *pixel = row;
        for (size_t x = window->columns; x != 0; x--, pixel += window->column_step) {
            first = vaddq_s16(first, vldrbq_s16(pixel));
            second = vaddq_s16(second, vldrbq_s16(pixel + LANES_16));
        }
    }
    put_sums(first, sums + channel, LANES_16);
    put_sums(second, sums + channel + LANES_16, LANES_16);
}

void dtn_cm_add_pixels(const dtn_cm_pixels_t *window, int32_t *sums, size_t count)
{
    size_t channel = 0;
    for (; channel + BLOCK <= count; channel += BLOCK) {
        add_block(window, channel, sums);
    }
    for (; channel < count; channel += LANES_16) {
        add_some(window, channel, sums, count - channel < LANES_16 ? count - channel : LANES_16);
    }
}

void dtn_cm_largest_pixels(const dtn_cm_pixels_t *window, int8_t lo, int8_t hi, int8_t *out, size_t count)
{
    for (size_t channel = 0; channel < count; channel += LANES_8) {
        mve_pred16_t lanes = vctp8q(count - channel);
        int8x16_t largest = vdupq_n_s8(lo);
        const int8_t *row = window->pixels + channel;
        for (size_t y = window->rows; y != 0; y--, row += window->row_step) {
            const int8_t *pixel = row;
            for (size_t x = window->columns; x != 0; x--, pixel += window->column_step) {
                /* 0 where nothing was read: never stored. */
                largest = vmaxq_s8(largest, vld1q_z_s8(pixel, lanes));
            }
        }
        vst1q_p_s8(out + channel, vminq_s8(largest, vdupq_n_s8(hi)), lanes);
    }
}
