/**
 * @file
 * The inner loops of the operators, written for each kind of core.
 *
 * The operators of this directory check their calls, and compute rare cases. The functions declared here are in the
 * directories `portable`, `dsp` (Armv7E-M, and Armv8-M with DSP) and `mve` (vectors of Armv8.1-M). A file is named for
 * its function and its directory, as `matmul_s8_dsp.c`; comments here say `matmul_s8.c`. The core decides which
 * are compiled, and `portable` replaces a file that `dsp` or `mve` lacks. All give the same bytes.
 *
 * Rules of all functions:
 *   - The caller has checked the numbers; factors are in range, rows have 1 to DTN_CM_MAX_PRODUCTS elements, and no
 * size is 0.
 *   - int8 values start anywhere, int32 ones at multiples of 4. Nothing is read or written beyond a value's bytes.
 *   - Scratch memory is the caller's, starts anywhere, and has any size; what is in it before and after means nothing.
 *     It is what ExecuTorch plans for CMSIS-NN's function of the layer: with fewer bytes, and for calls that it
 *     does not support, a function returns false and has written no output. The operator's own loops then compute.
 *   - Beyond that there are at most 2 KiB of stack.
 *   - Sums keep their low 32 bits.
 *   - Bundles have kernel sums if the weights are constants: `dsp` and `mve` are made for these.
 */
#pragma once

#include "scale.h"
#include "windows.h"

/** Rows of an input by the rows of weights, one for each channel of the output. */
typedef struct {
    const int8_t *input;
    const int8_t *weights; /**< `channels` rows, one behind the other */
    const int32_t *bias;   /**< one per channel, or NULL */
    int8_t *output;
    size_t rows;
    size_t depth; /**< elements of a row */
    size_t channels;
    size_t input_pitch; /**< from a row of the input to the next */
    size_t output_pitch;
    int32_t input_offset;
    int32_t weight_offset;
    bool has_s16_weights; /**< of interleaved rows */
    dtn_cm_scale_t scale;
} dtn_cm_product_t;

/** matmul_s8.c: fills the output with sums of (input + offset) * (weight + offset) and the bias, scaled. */
void dtn_cm_multiply(const dtn_cm_product_t *product);

/**
 * matmul_s4.c: the same with packed weights (packed_weights.h), `depth` bytes for each two channels. There is a kernel
 * sum as bias, and both offsets are 0.
 */
void dtn_cm_multiply_s4(const dtn_cm_product_t *product);

/**
 * interleaved_matmul_s8.c: the same with pairs of interleaved rows of weights (interleaved_weights.h), for an even
 * number of channels. There is a kernel sum as bias, and both offsets are 0. Returns false, and has written nothing,
 * for products that it does not support.
 */
bool dtn_cm_multiply_interleaved(const dtn_cm_product_t *product);

/** Most sums of `dtn_cm_add_row`. */
enum { DTN_CM_ROW_SUMS = 32 };

/**
 * row_sums_s8.c: adds the products of `depth` inputs, each with `offset` added, with the rows of weights of `channels`
 * channels to the channels' sums. `depth` is at most twice DTN_CM_MAX_PRODUCTS; `sums` has an element for one more
 * channel where their number is odd.
 */
void dtn_cm_add_row(const int8_t *inputs, int32_t offset, const int8_t *weights, size_t depth, size_t channels,
                    uint32_t *sums);

/** One of the groups of channels of a convolution: its outputs see its inputs only. */
typedef struct {
    const dtn_cm_windows_t *p; /**< the whole convolution */
    const int8_t *input;       /**< the group's first channel of the first pixel */
    const int8_t *weights;     /**< a row of `patch` elements for each output channel of the group */
    const int32_t *bias;       /**< or kernel sums: one per output channel of the group, or NULL */
    int8_t *output;            /**< the group's first channel of the first pixel */
    dtn_cm_scale_t scale;      /**< from the group's first output channel on */
    size_t outputs;            /**< channels of the group */
    size_t inputs;             /**< channels of the group */
    size_t patch;              /**< elements of a window */
    bool joined;               /**< neighbours in a row of the kernel are neighbours in memory, too */
    bool has_s16_weights;      /**< of interleaved rows; `weights` is their address */
    int32_t offset;            /**< added to each input: 0 if kernel sums include it */
    int32_t pad_value; /**< value of a position in the padding: it takes the place of an input with its offset */
} dtn_cm_group_t;

/** conv2d_s8.c: fills the group's channels of the output with the scaled sums of its windows. */
bool dtn_cm_convolve(const dtn_cm_group_t *group, void *scratch, size_t bytes);

/** conv2d_s4.c: the same with packed weights, and kernel sums. */
bool dtn_cm_convolve_s4(const dtn_cm_group_t *group, void *scratch, size_t bytes);

/**
 * interleaved_conv2d_s8.c: the same with pairs of interleaved rows of weights, of 8 or 16 bits, and kernel sums;
 * without scratch memory.
 */
bool dtn_cm_convolve_interleaved(const dtn_cm_group_t *group);

/**
 * depthwise_conv2d_s8.c: the same for a depthwise convolution, all of its channels. `in_offset` is added to inputs; the
 * padding counts as 0.
 */
bool dtn_cm_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes);
