/**
 * @file
 * The part of a window that is inside the map. Windows may be far larger than the map (dilation up to 65,536), so
 * positions are 64 bits wide; loops run over the part inside only.
 */
#pragma once

#include <stdint.h>

/** Kernel indices first..end-1 of a window lie on the map; index k reads position start + k * dilation. */
typedef struct {
    int64_t start;
    int32_t first;
    int32_t end;
} dtn_window_t;

/** The window of output position `out` on an axis of `in` elements. */
static inline dtn_window_t dtn_window(int32_t out, int32_t stride, int32_t pad, int32_t kernel, int32_t dilation,
                                      int32_t in)
{
    int64_t start = (int64_t)out * stride - pad;
    if (start >= 0 && start + (int64_t)(kernel - 1) * dilation < in) {
        /* Most windows lie wholly inside, which needs no division. */
        dtn_window_t whole = {start, 0, kernel};
        return whole;
    }
    int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t end = start >= in ? 0 : (in - start + dilation - 1) / dilation;
    dtn_window_t window = {start, first < kernel ? (int32_t)first : kernel, end < kernel ? (int32_t)end : kernel};
    return window;
}
