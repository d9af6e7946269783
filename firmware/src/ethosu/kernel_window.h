/**
 * @file
 * Windows of a kernel over the input, for convolutions and pools.
 */
#pragma once

#include "feature_map.h"

/** Upscaling of the input before the kernel is applied. */
typedef enum { DTN_ETHOSU_AS_IS = 0, DTN_ETHOSU_NEAREST = 1, DTN_ETHOSU_ZEROS = 2 } dtn_ethosu_upscale_t;

/** The checked geometry of an operation. */
typedef struct {
    int32_t out_h;
    int32_t out_w;
    int32_t out_c;
    int32_t in_h; /**< size of the upscaled input */
    int32_t in_w;
    int32_t in_c;
    int32_t kernel_h; /**< positions */
    int32_t kernel_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_top;
    int32_t pad_left;
    bool has_pads;
    bool is_summed;      /**< every output depends on all input channels */
    bool is_part_kernel; /**< the order of weights */
    int32_t part;        /**< positions of a part of the kernel, dilated */
    dtn_ethosu_upscale_t upscale;
} dtn_ethosu_geometry_t;

/** Reads the registers of sizes, kernel, padding and upscaling; `is_summed`: an output depends on all input channels.
 */
dtn_ethosu_fault_t dtn_ethosu_geometry(dtn_ethosu_t *m, bool is_summed, dtn_ethosu_geometry_t *geometry);

/** Reads and checks the input map of the geometry, with `depth` channels. */
dtn_ethosu_fault_t dtn_ethosu_input(dtn_ethosu_t *m, const dtn_ethosu_geometry_t *geometry, int32_t depth,
                                    dtn_ethosu_map_t *map);

/** Returns the pixel under position (ky, kx) of the window of output pixel (oy, ox); NULL for padding or an inserted
 * zero. */
static inline const uint8_t *dtn_ethosu_window_pixel(const dtn_ethosu_geometry_t *g, const dtn_ethosu_map_t *map,
                                                     int32_t oy, int32_t ox, int32_t ky, int32_t kx)
{
    int32_t y = oy * g->stride_h - g->pad_top + ky * g->dilation_h;
    int32_t x = ox * g->stride_w - g->pad_left + kx * g->dilation_w;
    if (y < 0 || y >= g->in_h || x < 0 || x >= g->in_w) {
        return NULL;
    }
    if (g->upscale != DTN_ETHOSU_AS_IS) {
        if (g->upscale == DTN_ETHOSU_ZEROS && ((y | x) & 1) != 0) {
            return NULL;
        }
        y >>= 1;
        x >>= 1;
    }
    return dtn_ethosu_pixel(map, y, x);
}
