#include <arm_mve.h>

#include "../element_loops.h"
#include "vectors_mve.h"

/* Lanes of 8 and of 16 bits, and the largest steps whose multiples they can hold. */
enum { LANES_8 = 16, MOST_8 = UINT8_MAX / (LANES_8 - 1), LANES_16 = 8, MOST_16 = UINT16_MAX / (LANES_16 - 1) };

/* From steps of up to MOST_8. */
static void by_16(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step, size_t count)
{
    uint8x16_t lane = vidupq_n_u8(0, 1);
    uint8x16_t source = vmulq_n_u8(lane, (uint8_t)from_step);
    uint8x16_t target = vmulq_n_u8(lane, (uint8_t)to_step);
    for (size_t left = count / LANES_8; left != 0; left--) {
        vstrbq_scatter_offset_u8(to, target, vldrbq_gather_offset_u8(from, source));
        from += LANES_8 * from_step;
        to += LANES_8 * to_step;
    }
    mve_pred16_t rest = vctp8q(count % LANES_8);
    vstrbq_scatter_offset_p_u8(to, target, vldrbq_gather_offset_z_u8(from, source, rest), rest);
}

/* From steps of up to MOST_16. */
static void by_8(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step, size_t count)
{
    uint16x8_t lane = vidupq_n_u16(0, 1);
    uint16x8_t source = vmulq_n_u16(lane, (uint16_t)from_step);
    uint16x8_t target = vmulq_n_u16(lane, (uint16_t)to_step);
    for (size_t left = count / LANES_16; left != 0; left--) {
        vstrbq_scatter_offset_u16(to, target, vldrbq_gather_offset_u16(from, source));
        from += LANES_16 * from_step;
        to += LANES_16 * to_step;
    }
    mve_pred16_t rest = vctp16q(count % LANES_16);
    vstrbq_scatter_offset_p_u16(to, target, vldrbq_gather_offset_z_u16(from, source, rest), rest);
}

void dtn_cm_strided_copy(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step, size_t count)
{
    size_t larger = from_step > to_step ? from_step : to_step;
    if (from_step == 1 && to_step == 1) {
        dtn_cm_copy_bytes((int8_t *)to, (const int8_t *)from, count);
    } else if (larger <= MOST_8) {
        by_16(from, from_step, to, to_step, count);
    } else if (larger <= MOST_16) {
        by_8(from, from_step, to, to_step, count);
    } else {
        for (size_t i = 0; i < count; i++) {
            to[i * to_step] = from[i * from_step];
        }
    }
}
