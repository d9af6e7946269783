/**
 * @file
 * Random parameters of calls: sizes, factors, constants and windows.
 */
#pragma once

#include "container_builder.h"

/** A size of at most `most`, mostly around the widths at which kernels change their way. */
int32_t random_size(uint64_t *state, int32_t most);

/** A zero point, often at a limit. */
int32_t random_zero_point(uint64_t *state);

/** Limits of an output: mostly all of int8. */
void random_clamp(uint64_t *state, int32_t *lo, int32_t *hi);

/** Mostly a factor that keeps results in range, sometimes any that the format allows. */
void random_row(uint64_t *state, int32_t *multiplier, int32_t *shift);

/** The same for a factor whose product is then divided by up to 128. */
void random_mean_factor(uint64_t *state, int32_t *multiplier, int32_t *shift);

/** Constants: any bytes, requantization rows, biases. */
build_ref_t random_constant(build_t *build, uint64_t *state, int32_t bytes);
build_ref_t random_rows(build_t *build, uint64_t *state, int32_t count);
build_ref_t random_bias(build_t *build, uint64_t *state, int32_t count);

/** One axis of a windowed kernel with every window touching the map. */
typedef struct {
    int32_t in;
    int32_t out;
    int32_t kernel;
    int32_t stride;
    int32_t dilation;
    int32_t pad;
} axis_t;

/** A random axis; without dilation unless `dilate`. */
axis_t random_axis(uint64_t *state, bool dilate);

/** Random calls of the kernels that read maps, in random_window_calls.c. */
void random_conv2d(build_t *build, uint64_t *state);
void random_wide_conv2d(build_t *build, uint64_t *state); /* a map that fast kernels take in parts */
void random_depthwise(build_t *build, uint64_t *state);
void random_average_pool(build_t *build, uint64_t *state);
void random_max_pool(build_t *build, uint64_t *state);
void random_resize_bilinear(build_t *build, uint64_t *state);
