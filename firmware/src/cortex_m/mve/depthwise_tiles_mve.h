/**
 * @file
 * Depthwise convolutions of 3x3 by dot products across a vector, which has up to 16 inputs of one channel: a tile.
 *
 *   stride 1 on both axes   4 columns of 4 rows, which two by two outputs see
 *   other strides           4 or 5 columns of 3 rows, which two outputs see
 *
 * The columns of a line lie in a buffer. They have a word per row, with four channels. Where a tile is loaded, `vld4`
 * separates the channels. A vector of weights has those of a channel where the inputs of an output are, and zeros
 * elsewhere, so it differs from output to output. Positions in the padding have the zero point.
 */
#pragma once

#include "depthwise_chunk_mve.h"
#include "predicate_clobber_mve.h"

/* Words of a tile, the most that weights move in it, outputs of a tile, and columns that are in the buffer at once. */
enum { TILE = 16, MOST_MOVED = 6, TILE_OUTPUTS = 4, TILE_COLUMNS = 34 };

/* The numbers of four channels, which the loops read at these offsets. */
typedef struct {
    int8_t weights[TILE_OUTPUTS][LANES][TILE]; /* 0 */
    int32_t starts[LANES];                     /* 256: of the sums */
    int32_t multipliers[LANES];                /* 272 */
    int32_t shifts[LANES];                     /* 288 */
    int32_t lo[LANES];                         /* 304 */
    int32_t hi[LANES];                         /* 320 */
} tile_numbers_t;

/* A layer in tiles that are neighbours along an axis. */
typedef struct {
    dtn_cm_axis_t along;
    dtn_cm_axis_t across;
    bool is_along_x;
    bool are_four;  /* outputs of a tile, not two */
    size_t rows;    /* of a tile */
    int32_t offset; /* of outputs */
    int32_t pad;    /* the zero point of four channels */
    tile_numbers_t numbers;
    int32_t taps[MOST_MOVED + TILE];           /* weights of a tile of the first output */
    int32_t columns[TILE_COLUMNS * 4 + LANES]; /* the last may be written and loaded, but do not count */
} tiles_t;

/* clang-format off */

/* Sums of an output from weights at these offsets. */
#define DTN_CM_TILE_SUMS(sums, a, b, c, d)                                                                             \
    "vldrw.32 q4, [%[numbers], #" a "]\n"                                                                              \
    "vmladav.s8 r0, q4, q0\n"                                                                                          \
    "vldrw.32 q4, [%[numbers], #" b "]\n"                                                                              \
    "vmladav.s8 r8, q4, q1\n"                                                                                          \
    "vldrw.32 q4, [%[numbers], #" c "]\n"                                                                              \
    "vmladav.s8 r10, q4, q2\n"                                                                                         \
    "vldrw.32 q4, [%[numbers], #" d "]\n"                                                                              \
    "vmladav.s8 r12, q4, q3\n"                                                                                         \
    "vmov " sums "[2], " sums "[0], r0, r10\n"                                                                         \
    "vmov " sums "[3], " sums "[1], r8, r12\n"

#define DTN_CM_TILE_TIMES(sums)                                                                                        \
    "vadd.i32 " sums ", " sums ", q0\n"                                                                                \
    DTN_CM_TIMES(sums, "q1", "q2")
#define DTN_CM_TILE_LIMIT(sums)                                                                                        \
    "vrshl.s32 " sums ", " sums ", q3\n"                                                                               \
    "vadd.i32 " sums ", " sums ", %[offset]\n"                                                                         \
    "vmax.s32 " sums ", " sums ", q0\n"                                                                                \
    "vmin.s32 " sums ", " sums ", q1\n"

/* All outputs of a tile; `each` applies a macro to their sums, and `sums` makes those behind the second. */
#define DTN_CM_TILE(step, sums, each)                                                                                  \
    "vld40.8 {q0, q1, q2, q3}, [%[x]]\n"                                                                               \
    "vld41.8 {q0, q1, q2, q3}, [%[x]]\n"                                                                               \
    "vld42.8 {q0, q1, q2, q3}, [%[x]]\n"                                                                               \
    "vld43.8 {q0, q1, q2, q3}, [%[x]]\n"                                                                               \
    "add %[x], %[x], " step "\n"                                                                                       \
    sums                                                                                                               \
    DTN_CM_TILE_SUMS("q5", "64", "80", "96", "112")                                                                    \
    DTN_CM_TILE_SUMS("q4", "0", "16", "32", "48")                                                                      \
    "vldrw.32 q0, [%[numbers], #256]\n"                                                                                \
    "vldrw.32 q1, [%[numbers], #272]\n"                                                                                \
    each(DTN_CM_TILE_TIMES)                                                                                            \
    "vldrw.32 q3, [%[numbers], #288]\n"                                                                                \
    "vldrw.32 q0, [%[numbers], #304]\n"                                                                                \
    "vldrw.32 q1, [%[numbers], #320]\n"                                                                                \
    each(DTN_CM_TILE_LIMIT)

/*
 * So many tiles of two by two outputs, from the columns `x` on; the outputs of the lower row are from `next` on.
 *
 *   q0 to q3              inputs of four channels; then the starts of sums, factors, free, and limits
 *   q4                    weights
 *   q4 to q7              sums of four channels of an output, then outputs
 *   r0, r8, r10, r12      sums of the channels
 *   lr                    tiles that are left
 */
static __attribute__((noinline)) void tiles_of_four(const tiles_t *tiles, const int32_t *x, size_t count, int8_t *to,
                                                    int8_t *next)
{
#define DTN_CM_OF_FOUR(macro) macro("q4") macro("q5") macro("q6") macro("q7")
    register size_t left __asm__("lr") = count;
    __asm__ volatile("dls lr, lr\n"
                     "1:\n"
                     DTN_CM_TILE("#32",
                                 DTN_CM_TILE_SUMS("q6", "128", "144", "160", "176")
                                 DTN_CM_TILE_SUMS("q7", "192", "208", "224", "240"),
                                 DTN_CM_OF_FOUR)
                     "vstrb.32 q4, [%[to]]\n"
                     "add %[to], %[to], %[out_step]\n"
                     "vstrb.32 q6, [%[next]]\n"
                     "add %[next], %[next], %[out_step]\n"
                     "vstrb.32 q5, [%[to]]\n"
                     "add %[to], %[to], %[out_step]\n"
                     "vstrb.32 q7, [%[next]]\n"
                     "add %[next], %[next], %[out_step]\n"
                     "le lr, 1b\n"
                     : [x] "+&r"(x), [to] "+&l"(to), [next] "+&l"(next), "+&r"(left)
                     : [numbers] "r"(&tiles->numbers), [out_step] "r"(tiles->along.out_step),
                       [offset] "r"(tiles->offset)
                     : "r0", "r8", "r10", "r12", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

/* The same for tiles of two outputs, which are so many bytes apart. */
static __attribute__((noinline)) void tiles_of_two(const tiles_t *tiles, const int32_t *x, size_t step, size_t count,
                                                   int8_t *to)
{
#define DTN_CM_OF_TWO(macro) macro("q4") macro("q5")
    register size_t left __asm__("lr") = count;
    __asm__ volatile("dls lr, lr\n"
                     "1:\n"
                     DTN_CM_TILE("%[step]", "", DTN_CM_OF_TWO)
                     "vstrb.32 q4, [%[to]]\n"
                     "add %[to], %[to], %[out_step]\n"
                     "vstrb.32 q5, [%[to]]\n"
                     "add %[to], %[to], %[out_step]\n"
                     "le lr, 1b\n"
                     : [x] "+&r"(x), [to] "+&l"(to), "+&r"(left)
                     : [numbers] "r"(&tiles->numbers), [step] "r"(step), [out_step] "r"(tiles->along.out_step),
                       [offset] "r"(tiles->offset)
                     : "r0", "r8", "r10", "r12", "q0", "q1", "q2", "q3", "q4", "q5", "memory");
}

/* clang-format on */

/* True for layers whose words are aligned, and which have a tile or more. */
static bool takes_tiles(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    return p->kernel_h == 3 && p->kernel_w == 3 && p->dilation_h == 1 && p->dilation_w == 1 && p->in_c == p->out_c &&
           layer->channels % LANES == 0 && p->in_c % LANES == 0 && (uintptr_t)layer->input % LANES == 0 &&
           p->out_h > 1 && p->out_w > 1 && p->stride_h <= 2 && p->stride_w <= 2;
}

static void start_tiles(tiles_t *tiles, const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    const dtn_cm_axis_t x = DTN_CM_AXIS_X(p);
    const dtn_cm_axis_t y = DTN_CM_AXIS_Y(p);
    tiles->is_along_x = x.out >= y.out;
    tiles->along = tiles->is_along_x ? x : y;
    tiles->across = tiles->is_along_x ? y : x;
    tiles->are_four = x.stride == 1 && y.stride == 1;
    tiles->rows = tiles->are_four ? 4 : 3;
    tiles->offset = layer->scale.offset;
    tiles->pad = (int32_t)(UINT32_C(0x01010101) * (uint8_t)-p->in_offset);
    vstrwq_s32(tiles->numbers.lo, vdupq_n_s32(layer->scale.lo));
    vstrwq_s32(tiles->numbers.hi, vdupq_n_s32(layer->scale.hi));
    memset(tiles->taps, 0, sizeof tiles->taps);
}

/* The weights of an output that moves them by so many words. */
static void move_weights(tiles_t *tiles, size_t output, size_t words)
{
    const int8x16x4_t channels = vld4q_s8((const int8_t *)(tiles->taps + MOST_MOVED - words));
    for (size_t i = 0; i < LANES; i++) {
        vstrbq_s8(tiles->numbers.weights[output][i], channels.val[i]);
    }
}

/* The numbers of four channels. */
static void start_channels(tiles_t *tiles, const dtn_cm_convolution_t *layer, size_t channel)
{
    const size_t along_pitch = tiles->is_along_x ? layer->taps_pitch : 3 * layer->taps_pitch;
    const size_t across_pitch = tiles->is_along_x ? 3 * layer->taps_pitch : layer->taps_pitch;
    const size_t rows = tiles->rows;
    const int8_t *weights = layer->weights + channel;
    int32x4_t sums = vdupq_n_s32(0);
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 3; j++) {
            memcpy(&tiles->taps[MOST_MOVED + i * rows + j], weights, LANES);
            sums = vaddq_s32(sums, vldrbq_s32(weights));
            weights += across_pitch;
        }
        weights += along_pitch - 3 * across_pitch;
    }
    const int32x4_t bias = layer->bias == NULL ? vdupq_n_s32(0) : vldrwq_s32(layer->bias + channel);
    vstrwq_s32(tiles->numbers.starts, vmlaq_n_s32(bias, sums, layer->p->in_offset));
    vstrwq_s32(tiles->numbers.multipliers, vldrwq_s32(layer->scale.multipliers + channel));
    vstrwq_s32(tiles->numbers.shifts, vldrwq_s32(layer->scale.shifts + channel));
    move_weights(tiles, 0, 0);
    move_weights(tiles, 1, (size_t)tiles->along.stride * rows);
    if (tiles->are_four) {
        move_weights(tiles, 2, 1);
        move_weights(tiles, 3, 5);
    }
}

/* One column, whose words are so many bytes. */
#define DTN_CM_LOAD_COLUMN(bytes)                                                                                      \
    "dls lr, lr\n"                                                                                                     \
    "1:\n"                                                                                                             \
    "vldrw.u32 q0, [%q[addresses]]\n"                                                                                  \
    "vadd.i32 %q[addresses], %q[addresses], %q[steps]\n"                                                               \
    "vstrw.32 q0, [%[to]], #" bytes "\n"                                                                               \
    "le lr, 1b\n"

/*
 * Loads neighbouring columns of the map, of four rows from `row` on. With three rows per column, the next one replaces
 * the fourth word.
 */
static void load_columns(const tiles_t *tiles, const int8_t *first, int32_t row, size_t count, int32_t *to)
{
    const dtn_cm_axis_t *across = &tiles->across;
    const uint32_t step = (uint32_t)tiles->along.in_step;
    const uint32x4_t rows = vaddq_n_u32(vidupq_n_u32(0, 1), (uint32_t)row);
    const mve_pred16_t is_padding = vcmpcsq_n_u32(rows, (uint32_t)across->in);
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32((uint32_t)(uintptr_t)first), rows, (uint32_t)across->in_step);
    uint32x4_t addresses = vpselq_u32(vdupq_n_u32((uint32_t)(uintptr_t)&tiles->pad), places, is_padding);
    const uint32x4_t steps = vpselq_u32(vdupq_n_u32(0), vdupq_n_u32(step), is_padding);
    register size_t left __asm__("lr") = count;
    if (tiles->rows == 4) {
        __asm__ volatile(DTN_CM_LOAD_COLUMN("16")
                         : [addresses] "+&w"(addresses), [to] "+&r"(to), "+&r"(left)
                         : [steps] "w"(steps)
                         : "q0", "memory");
    } else {
        __asm__ volatile(DTN_CM_LOAD_COLUMN("12")
                         : [addresses] "+&w"(addresses), [to] "+&r"(to), "+&r"(left)
                         : [steps] "w"(steps)
                         : "q0", "memory");
    }
}

static void pad_columns(const tiles_t *tiles, int32_t *to, int32_t count)
{
    for (size_t left = (size_t)count * tiles->rows; left != 0; left--) {
        *to++ = tiles->pad;
    }
}

static void some_tiles(const tiles_t *tiles, const int32_t *x, size_t count, int8_t *to)
{
    if (tiles->are_four) {
        tiles_of_four(tiles, x, count, to, to + tiles->across.out_step);
    } else {
        tiles_of_two(tiles, x, 8 * (size_t)tiles->along.stride * tiles->rows, count, to);
    }
}

/* Outputs side by side in all lines, whose columns are in the buffer at once. */
typedef struct {
    int32_t first;
    int32_t count;
    int32_t column; /* the first one on the map, which has a place in the buffer, and so many */
    int32_t *place;
    size_t columns;
} strip_t;

/* A strip, with its columns in the padding in the buffer: they are the same for all channels and lines. */
static strip_t start_strip(tiles_t *tiles, int32_t first, int32_t count)
{
    const dtn_cm_axis_t *along = &tiles->along;
    const int32_t columns = (count - 1) * along->stride + 3;
    const int32_t start = first * along->stride - along->pad;
    const int32_t before = dtn_cm_clamp(-start, 0, columns);
    const int32_t inside = dtn_cm_clamp(along->in - start - before, 0, columns - before);
    int32_t *place = tiles->columns + (size_t)before * tiles->rows;
    pad_columns(tiles, tiles->columns, before);
    pad_columns(tiles, place + (size_t)inside * tiles->rows, columns - before - inside);
    return (strip_t){first, count, start + before, place, (size_t)inside};
}

/* Four channels of an image. An odd last output is made with the one before once more, and so is an odd last line. */
static void lines_of_tiles(tiles_t *tiles, const strip_t *strip, const int8_t *image, int8_t *output)
{
    const dtn_cm_axis_t across = tiles->across;
    const size_t out_step = tiles->along.out_step;
    const size_t count = (size_t)strip->count;
    const int32_t *last = tiles->columns + (count - 2) * (size_t)tiles->along.stride * tiles->rows;
    int32_t *behind = strip->place + strip->columns * tiles->rows;
    const int32_t lines = tiles->are_four ? 2 : 1;
    image += (size_t)strip->column * tiles->along.in_step;
    output += (size_t)strip->first * out_step;
    for (int32_t line = 0; line < across.out; line += lines) {
        line = dtn_cm_clamp(line, 0, across.out - lines);
        if (strip->columns != 0) {
            load_columns(tiles, image, line * across.stride - across.pad, strip->columns, strip->place);
            *behind = tiles->pad; /* in place of a fourth word */
        }
        int8_t *to = output + (size_t)line * across.out_step;
        some_tiles(tiles, tiles->columns, count / 2, to);
        if (count % 2 != 0) {
            some_tiles(tiles, last, 1, to + (count - 2) * out_step);
        }
    }
}

/* All channels. */
static __attribute__((noinline)) void all_tiles(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    tiles_t tiles;
    start_tiles(&tiles, layer);
    const int32_t most = tiles.are_four ? TILE_COLUMNS - 2 : TILE_COLUMNS / 2 - 1;
    for (int32_t first = 0, count; first < tiles.along.out; first += count) {
        count = dtn_cm_clamp(tiles.along.out - first, 2, most);
        first = dtn_cm_clamp(first, 0, tiles.along.out - count);
        const strip_t strip = start_strip(&tiles, first, count);
        for (size_t channel = 0; channel < layer->channels; channel += LANES) {
            start_channels(&tiles, layer, channel);
            const int8_t *image = layer->input + channel;
            int8_t *output = layer->output + channel;
            for (int32_t b = 0; b < p->batches; b++) {
                lines_of_tiles(&tiles, &strip, image, output);
                image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
                output += (size_t)p->out_h * (size_t)p->out_w * (size_t)p->out_c;
            }
        }
    }
}
