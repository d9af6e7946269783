/**
 * @file
 * Convolutions of 3x3 with stride 1 by Winograd's algorithm F(4x4, 3x3), exact in integers. Each kind of core has its
 * own inner loops, as inner_loops.h says; all give the same bytes.
 *
 * A tile of 4x4 outputs y of one channel is made of 6x6 inputs d and 3x3 weights g of each input channel:
 *
 *     y = A' [sum over input channels of (G g G') * (B' d B)] A     (* multiplies element by element)
 *
 * which takes 36 products instead of 144. The rows of Winograd's G have denominators. Here G is multiplied by 24, and
 * its rows are divided by 6, -4, -4, 1, 1 and 24, which the columns of A' are multiplied by:
 *
 *          4  0 -5  0  1  0          1  0  0             6 -4 -4  1  1  0     24
 *          0 -4 -4  1  1  0          1  1  1             0 -4  4  2 -2  0     24
 *     B' = 0  4 -4 -1  1  0      G = 1 -1  1        A' = 0 -4 -4  4  4  0     24
 *          0 -2 -1  2  1  0          1  2  4             0 -4  4  8 -8 24     24
 *          0  2 -1 -2  1  0          1 -2  4
 *          0  4  0 -5  0  1          0  0  1
 *
 * Rows of A' have common divisors 1, 2, 4 and 4: divided by these they give 24, 12, 6 and 6 times the outputs. So in
 * two dimensions a sum is y * 9 * 2^k, k = 6 to 2. Multiplied by the inverse of 9 modulo 2^32 it is y * 2^k, and a
 * shift gives y. It is exact if -2^25 <= y < 2^25, even if sums before have overflowed. spec/rounding.md section 6 has
 * the bounds.
 */
#pragma once

#include "windows.h"

enum {
    DTN_CM_TILE = 4,        /**< rows and columns of outputs in a tile */
    DTN_CM_TILE_INPUTS = 6, /**< rows and columns of inputs that they are made of */
    DTN_CM_TILE_PRODUCTS = DTN_CM_TILE_INPUTS * DTN_CM_TILE_INPUTS,
};

/** The inverse of 9 modulo 2^32. */
#define DTN_CM_INVERSE_OF_9 UINT32_C(0x38E38E39)

/** The use of transformed inputs where a layer is computed in parts of its output channels. */
typedef enum {
    DTN_CM_TILES_DROPPED, /**< transformed again in each part */
    DTN_CM_TILES_WRITTEN, /**< transformed, and those of all tiles kept in scratch memory */
    DTN_CM_TILES_READ,    /**< read from scratch memory */
} dtn_cm_tiles_t;

/**
 * A checked layer, or some of its output channels: kernel sums include the input's offset, and positions in the padding
 * have the value -in_offset.
 */
typedef struct {
    const dtn_cm_windows_t *p;
    const int8_t *input;
    const int16_t *weights; /**< of the channels, transformed; the operator's documentation has their order */
    const int32_t *kernel_sums;
    int8_t *output;
    dtn_cm_scale_t scale;
    size_t first; /**< output channels, from the first to that before the end */
    size_t end;
    size_t most; /**< channels of a group */
    dtn_cm_tiles_t tiles;
} dtn_cm_winograd_t;

/** Input channels in fours: the last is filled with zeros. */
static inline size_t dtn_cm_winograd_fours(size_t inputs)
{
    return (inputs + 3) / 4;
}

/** Channels whose weights are side by side in a group that starts at a channel: three, or two in the last groups. */
static inline size_t dtn_cm_winograd_group(size_t channel, size_t outputs, size_t most)
{
    const size_t left = outputs - channel;
    return most < 3 || left == 4 || left < 3 ? 2 : 3;
}

/** Bytes of the transformed weights of an output channel. */
static inline size_t dtn_cm_winograd_channel(size_t inputs)
{
    return 8 * DTN_CM_TILE_PRODUCTS * dtn_cm_winograd_fours(inputs);
}

/** Bytes of two transformed tiles. */
static inline size_t dtn_cm_winograd_pair(size_t inputs)
{
    return 16 * DTN_CM_TILE_PRODUCTS * dtn_cm_winograd_fours(inputs);
}

/** Pairs of tiles of a layer. */
static inline size_t dtn_cm_winograd_pairs(const dtn_cm_windows_t *p)
{
    const size_t rows = ((size_t)p->out_h + DTN_CM_TILE - 1) / DTN_CM_TILE;
    const size_t columns = ((size_t)p->out_w + DTN_CM_TILE - 1) / DTN_CM_TILE;
    return ((size_t)p->batches * rows * columns + 1) / 2;
}

/** Bytes of scratch memory for some pairs of tiles, which are at its end; it starts at a multiple of 4. */
static inline size_t dtn_cm_winograd_scratch(size_t inputs, size_t pairs)
{
    const size_t fours = dtn_cm_winograd_fours(inputs);
    const size_t chunk = fours < 4 ? fours : 4;
    /* Columns of two tiles for some channels, sums, a position in the padding, and transformed tiles. */
    return 4 * (2 * 12 * DTN_CM_TILE_INPUTS * chunk + 6 * DTN_CM_TILE_PRODUCTS + fours) +
           pairs * dtn_cm_winograd_pair(inputs);
}

/** Four sums of a tile, in unsigned arithmetic, where overflow is defined. */
typedef struct {
    uint32_t at[DTN_CM_TILE];
} dtn_cm_tile_sums_t;

/** A' times six sums, each row divided by its common divisor. */
static inline dtn_cm_tile_sums_t dtn_cm_tile_sums(const uint32_t m[DTN_CM_TILE_INPUTS])
{
    const uint32_t a = m[1] + m[2];
    const uint32_t b = m[1] - m[2];
    const uint32_t c = m[3] + m[4];
    const uint32_t d = m[3] - m[4];
    const uint32_t first = m[0] + 2 * m[0];
    const uint32_t last = m[5] + 2 * m[5];
    return (dtn_cm_tile_sums_t){{c - 4 * a + 2 * first, d - 2 * b, c - a, 2 * d - b + 2 * last}};
}

/** The columns of 36 sums, `pitch` words apart, times A'. `start` is a kernel sum times 36. */
static inline void dtn_cm_tile_columns(const uint32_t *sums, size_t pitch, uint32_t start,
                                       uint32_t z[DTN_CM_TILE][DTN_CM_TILE_INPUTS])
{
    for (size_t j = 0; j < DTN_CM_TILE_INPUTS; j++) {
        uint32_t m[DTN_CM_TILE_INPUTS];
        for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            m[i] = sums[(i * DTN_CM_TILE_INPUTS + j) * pitch];
        }
        const dtn_cm_tile_sums_t y = dtn_cm_tile_sums(m);
        for (size_t i = 0; i < DTN_CM_TILE; i++) {
            z[i][j] = y.at[i];
        }
    }
    /* The start counts in column 1 only. GCC 12 makes wrong predicates of that condition in the loop on a Cortex-M55.
     */
    z[0][1] -= 4 * start;
    z[1][1] -= 2 * start;
    z[2][1] -= start;
    z[3][1] -= start;
}

/** The sum in row i and column j of a tile, times 2^bits, `bits` 0 or 1. Rows and columns have 3 * 2^3, 2^2, 2, 2. */
static inline int32_t dtn_cm_tile_sum(uint32_t product, size_t i, size_t j, int32_t bits)
{
    static const int32_t shifts[DTN_CM_TILE] = {3, 2, 1, 1};
    /* All compilers that we know shift the sign in. */
    return (int32_t)(product * DTN_CM_INVERSE_OF_9) >> (shifts[i] + shifts[j] - bits);
}

/** Where a tile starts on the output's map. */
typedef struct {
    int32_t b;
    int32_t oy;
    int32_t ox;
} dtn_cm_tile_t;

/** The next tile: behind the last one b is the number of batches. */
static inline dtn_cm_tile_t dtn_cm_next_tile(const dtn_cm_windows_t *p, dtn_cm_tile_t tile)
{
    tile.ox += DTN_CM_TILE;
    if (tile.ox >= p->out_w) {
        tile.ox = 0;
        tile.oy += DTN_CM_TILE;
    }
    if (tile.oy >= p->out_h) {
        tile.oy = 0;
        tile.b++;
    }
    return tile;
}

/** A tile's first output of a channel. */
static inline int8_t *dtn_cm_tile_output(const dtn_cm_winograd_t *layer, dtn_cm_tile_t tile, size_t channel)
{
    const dtn_cm_windows_t *p = layer->p;
    const size_t row = (size_t)tile.b * (size_t)p->out_h + (size_t)tile.oy;
    return layer->output + (row * (size_t)p->out_w + (size_t)tile.ox) * (size_t)p->out_c + channel;
}

/**
 * winograd_conv2d_s8.c: fills the output. `scratch` has the bytes of `dtn_cm_winograd_scratch`, for all pairs of tiles
 * if these are kept, else for one.
 */
void dtn_cm_convolve_winograd(const dtn_cm_winograd_t *layer, void *scratch);

/**
 * winograd_conv2d_s8.c: transforms the weights of a group of `count` output channels, from `kernels` on: 3x3 weights of
 * `inputs` channels each. The last of `outputs` channels is repeated.
 */
void dtn_cm_transform_winograd(const int8_t *kernels, size_t inputs, size_t outputs, size_t count, int16_t *weights);
