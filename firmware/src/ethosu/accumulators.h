/**
 * @file
 * Accumulators of an Ethos-U85's operation: their start values, and their target, the output or the next operation.
 */
#pragma once

#include "output_scale.h"

/** The checked source and target of an operation's accumulators. */
typedef struct {
    bool is_started; /**< accumulators start at the values of `start`, not at zero */
    bool has_output;
    dtn_ethosu_map_t start; /**< elements of 4 or 8 bytes */
    dtn_ethosu_map_t kept;  /**< target of accumulators without output */
} dtn_ethosu_sums_t;

/** Reads and checks the accumulator format, for an output of these sizes; other products always write outputs. */
dtn_ethosu_fault_t dtn_ethosu_sums(dtn_ethosu_t *m, int32_t height, int32_t width, int32_t depth,
                                   dtn_ethosu_sums_t *sums);

/** Handles `count` sums of a pixel's channels from `first` on: writes outputs with their biases and factors, or keeps
 * the accumulators. */
void dtn_ethosu_sums_output(const dtn_ethosu_sums_t *sums, const dtn_ethosu_map_t *out,
                            const dtn_ethosu_output_t *output, const dtn_ethosu_channel_t *channels, int32_t y,
                            int32_t x, int32_t first, int32_t count, int64_t *values);
