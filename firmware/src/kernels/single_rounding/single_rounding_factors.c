#include "single_rounding_factors.h"

/*
 * A row's factor multiplier / 2^shift is multiplier * 2^(rare - 31) for the inner loops, which rounds ties up where
 * rare is negative. RARE more makes a shift that it leaves to `dtn_sr_scaled_general`.
 */
enum { ONE = 31, RARE = 64 };

/*
 * True when no sum is a tie that the output's range does not hide. A tie is sum * multiplier / 2^shift = k / 2 with k
 * odd. Then k has all odd factors of the multiplier, which are 512 or more for 31 bits that are not all 0 below bit 22.
 * A result of 256 or more is clamped, however it is rounded.
 */
static bool has_no_tie(int32_t multiplier)
{
    return multiplier >= 1 << 30 && (multiplier & ((1 << 22) - 1)) != 0;
}

static int32_t shift_of(dtn_requant_row_t row)
{
    return ONE - row.shift + (has_no_tie(row.multiplier) ? 0 : RARE);
}

size_t dtn_sr_channels(size_t left)
{
    if (left >= 2 * DTN_SR_CHANNELS) {
        return DTN_SR_CHANNELS;
    }
    /* The inner loops work best on fours. */
    return left > DTN_SR_CHANNELS ? (left + 7) / 8 * 4 : left;
}

dtn_cm_scale_t dtn_sr_scale(const dtn_sr_outputs_t *outputs, size_t first, size_t count, dtn_sr_factors_t *factors)
{
    dtn_cm_scale_t scale = {
        .multipliers = factors->multipliers,
        .shifts = factors->shifts,
        .step = 1,
        .largest_shift = INT32_MIN,
        .offset = outputs->zero_point,
        .lo = outputs->lo,
        .hi = outputs->hi,
    };
    for (size_t i = 0; i < count; i++) {
        dtn_requant_row_t row = outputs->rows[outputs->is_shared ? 0 : first + i];
        int32_t shift = shift_of(row);
        factors->multipliers[i] = row.multiplier;
        factors->shifts[i] = shift;
        scale.largest_shift = shift > scale.largest_shift ? shift : scale.largest_shift;
    }
    return scale;
}

dtn_cm_scale_t dtn_sr_shared_scale(const dtn_sr_outputs_t *outputs, dtn_sr_factors_t *factors)
{
    dtn_cm_scale_t scale = dtn_sr_scale(outputs, 0, 1, factors);
    scale.step = 0;
    return scale;
}

int8_t dtn_sr_output(const dtn_sr_outputs_t *outputs, size_t channel, uint32_t sum)
{
    dtn_requant_row_t row = outputs->rows[outputs->is_shared ? 0 : channel];
    return dtn_requant_s8(dtn_as_signed(sum), row, outputs->zero_point, outputs->lo, outputs->hi);
}

int8_t dtn_sr_scaled_general(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum)
{
    int32_t shift = ONE + 2 + (int32_t)factor->drop;
    dtn_requant_row_t row = {factor->multiplier, shift < 1 ? shift + RARE : shift};
    return dtn_requant_s8(dtn_as_signed(sum), row, scale->offset, scale->lo, scale->hi);
}

bool dtn_sr_are_usual(const int32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    return true;
}
