#include "../depthwise_lines_s16.h"
#include "requantize_s16_mve.h"

/* Channels at once, and those of one vector of 32 bits. */
enum { CHANNELS = 8, LANES = 4 };

/* Eight channels: those with even numbers, then those with odd ones. */
typedef struct {
    struct {
        int32_t multipliers[LANES];
        int32_t low[LANES];
        int32_t high[LANES];
        int32_t shifts[LANES];
        int32_t tops[LANES];
    } halves[2];
    int16_t lo[CHANNELS];
    int16_t hi[CHANNELS];
    int16_t weights[DTN_CM_S16_CHUNK_TAPS * CHANNELS]; /* of each position, side by side */
} chunk_t;

/* Sums of eight channels. */
typedef struct {
    int32x4_t even;
    int32x4_t odd;
} sums_t;

static __attribute__((noinline)) void make_chunk(const dtn_cm_image_s16_t *layer, size_t first, void *channels)
{
    chunk_t *chunk = (chunk_t *)channels;
    const size_t taps = (size_t)layer->p->kernel_h * (size_t)layer->p->kernel_w;
    const uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)taps);
    const int8_t *weights = layer->weights + first * taps;
    for (size_t i = 0; i < taps; i++) {
        vstrhq_s16(chunk->weights + i * CHANNELS, vldrbq_gather_offset_s16(weights + i, places));
    }
    const int32x4x2_t multipliers = vld2q_s32(layer->scale.multipliers + first);
    const int32x4x2_t shifts = vld2q_s32(layer->scale.shifts + first);
    const int32x4x2_t bias = vld2q_s32(layer->scale.bias + first);
    for (size_t i = 0; i < 2; i++) {
        const dtn_mve_factors_s16_t own = dtn_mve_factors_s16(multipliers.val[i], shifts.val[i], bias.val[i]);
        vstrwq_s32(chunk->halves[i].multipliers, own.multipliers);
        vstrwq_s32(chunk->halves[i].low, own.low);
        vstrwq_s32(chunk->halves[i].high, own.high);
        vstrwq_s32(chunk->halves[i].shifts, own.shifts);
        vstrwq_s32(chunk->halves[i].tops, own.tops);
    }
    vstrhq_s16(chunk->lo, vdupq_n_s16((int16_t)layer->scale.lo));
    vstrhq_s16(chunk->hi, vdupq_n_s16((int16_t)layer->scale.hi));
}

/*
 * Sums of the part of a window that is on the map, which has one row or more.
 *
 *   q0 even, q1 odd       sums
 *   q2, q3                inputs and weights of a position
 *   q4, q5                products
 *   lr                    columns that are left
 */
static inline sums_t window_sums(const int16_t *x, const int16_t *w, int32_t rows, int32_t columns, size_t column,
                                 size_t row, size_t left_out)
{
    register int32x4_t even __asm__("q0") = vdupq_n_s32(0);
    register int32x4_t odd __asm__("q1") = vdupq_n_s32(0);
    const size_t step = 2 * column;
    const size_t next_row = 2 * (row - (size_t)columns * column);
    const size_t next_weights = 2 * CHANNELS * left_out;
    __asm__ volatile(
        "1:\n"
        "dls lr, %[columns]\n"
        "2:\n"
        "vldrh.16 q2, [%[x]]\n"
        "vldrh.16 q3, [%[w]], #16\n"
        "vmullb.s16 q4, q2, q3\n"
        "add %[x], %[x], %[step]\n"
        "vmullt.s16 q5, q2, q3\n"
        "vadd.i32 q0, q0, q4\n"
        "vadd.i32 q1, q1, q5\n"
        "le lr, 2b\n"
        "add %[x], %[x], %[next_row]\n"
        "add %[w], %[w], %[next_weights]\n"
        "subs %[rows], %[rows], #1\n"
        "bne 1b\n"
        : "+&w"(even), "+&w"(odd), [x] "+&r"(x), [w] "+&r"(w), [rows] "+&r"(rows)
        : [columns] "r"(columns), [step] "r"(step), [next_row] "r"(next_row), [next_weights] "r"(next_weights)
        : "q2", "q3", "q4", "q5", "lr", "cc", "memory");
    return (sums_t){even, odd};
}

/* The quotients of the sums of half of the channels, in q6; q3, q4, q5 and q7 are free. */
#define QUOTIENTS(sums, half_of_channels)                                                                              \
    "vldrw.32 q3, [%[chunk], #" half_of_channels "]\n"                                                                 \
    "vmulh.s32 q6, " sums ", q3\n"                                                                                     \
    "vmul.i32 " sums ", " sums ", q3\n"                                                                                \
    "vldrw.32 q4, [%[chunk], #" half_of_channels " + 16]\n"                                                            \
    "vldrw.32 q5, [%[chunk], #" half_of_channels " + 32]\n" DTN_MVE_ADD_BIAS_S16(                                      \
        sums, "q6", "q4", "q5", "%[one]") "vldrw.32 q3, [%[chunk], #" half_of_channels " + 48]\n"                      \
                                          "vldrw.32 q4, [%[chunk], #" half_of_channels                                 \
                                          " + 64]\n" DTN_MVE_ROUND_S16(sums, "q6", "q3", "q4", "q7", "%[half]")

/*
 * Stores the outputs of eight channels.
 *
 *   q0 even, q1 odd       sums
 *   q2                    outputs
 *   q3, q4                limits
 */
static inline void store(const chunk_t *chunk, sums_t sums, int16_t *output)
{
    register int32x4_t even __asm__("q0") = sums.even;
    register int32x4_t odd __asm__("q1") = sums.odd;
    /* clang-format off */
    __asm__ volatile(
        QUOTIENTS("q0", "0")
        "vqmovnb.s32 q2, q6\n"
        QUOTIENTS("q1", "80")
        "vqmovnt.s32 q2, q6\n"
        "vldrh.16 q3, [%[chunk], #160]\n"
        "vldrh.16 q4, [%[chunk], #176]\n"
        "vmax.s16 q2, q2, q3\n"
        "vmin.s16 q2, q2, q4\n"
        "vstrh.16 q2, [%[output]]\n"
        : "+&w"(even), "+&w"(odd)
        : [chunk] "r"(chunk), [output] "r"(output), [one] "r"(1), [half] "r"(DTN_MVE_HALF)
        : "q2", "q3", "q4", "q5", "q6", "q7", DTN_CM_PREDICATE "cc", "memory");
    /* clang-format on */
}

/* `count` outputs along an axis, whose windows have the same positions on the map. */
static __attribute__((noinline)) void same_windows(const void *channels, const dtn_cm_line_s16_t *taps,
                                                   const dtn_cm_axis_t *along, int32_t count, int16_t *output)
{
    const chunk_t *chunk = (const chunk_t *)channels;
    const int16_t *x = taps->input;
    const int16_t *weights = chunk->weights + taps->tap * CHANNELS;
    const int32_t rows = taps->rows;
    const int32_t columns = taps->columns;
    const size_t column = taps->column;
    const size_t row = taps->row;
    const size_t left_out = taps->left_out;
    const size_t in_step = (size_t)along->stride * along->in_step;
    const size_t out_step = along->out_step;
    if (rows == 0 || columns == 0) {
        for (; count > 0; count--) {
            store(chunk, (sums_t){vdupq_n_s32(0), vdupq_n_s32(0)}, output);
            output += out_step;
        }
        return;
    }
    do {
        store(chunk, window_sums(x, weights, rows, columns, column, row, left_out), output);
        x += in_step;
        output += out_step;
    } while (--count > 0);
}

void dtn_cm_depthwise_s16(const dtn_cm_image_s16_t *layer)
{
    chunk_t chunk;
    dtn_cm_depthwise_chunks_s16(layer, CHANNELS, &chunk, make_chunk, same_windows);
}
