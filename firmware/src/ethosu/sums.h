/**
 * @file
 * Where the sums of an Ethos-U85's operation start, and where they go: to the output, or to the next operation.
 */
#ifndef DTN_ETHOSU_SUMS_H
#define DTN_ETHOSU_SUMS_H

#include "scale.h"

/** The checked start and end of an operation's sums. */
typedef struct {
    bool is_started; /**< sums start at those of `start`, not at zero */
    bool has_output;
    dtn_eu_map_t start; /**< of 4 or 8 bytes */
    dtn_eu_map_t kept;  /**< where sums go that are not put out */
} dtn_eu_sums_t;

/** Reads and checks the format of accumulators, for an output of these sizes; other products always put out. */
dtn_ethosu_fault_t dtn_eu_sums(dtn_ethosu_t *m, int32_t height, int32_t width, int32_t depth, dtn_eu_sums_t *sums);

/** Takes `count` sums of a pixel's channels from `first` on: puts them out with their biases and factors, or keeps
 * them.
 */
void dtn_eu_sums_put(const dtn_eu_sums_t *sums, const dtn_eu_map_t *out, const dtn_eu_output_t *output,
                     const dtn_eu_channel_t *channels, int32_t y, int32_t x, int32_t first, int32_t count,
                     int64_t *values);

#endif /* DTN_ETHOSU_SUMS_H */
