/**
 * @file
 * The levels of an x86-64 processor and the kernels of each.
 */
#pragma once

#include "deuteron/kernel.h"

enum { DTN_LEVEL_BASELINE, DTN_LEVEL_AVX2, DTN_LEVEL_AVX_VNNI, DTN_LEVEL_AVX512_VNNI, DTN_LEVELS };

/** The kernels of each kind by level. */
extern const dtn_kernel_t dtn_level_kernels[DTN_KERNEL_KINDS][DTN_LEVELS];

/**
 * The kernels that multiply panels. Each has besides at every level but the lowest
 *
 * - `dtn_panels_<name>_<level>`: writes the panels of a call at a line of the cache, unless that is NULL; returns how
 * many numbers they are, 0 for a call that has none;
 * - `dtn_paneled_<name>_<level>`: runs a call whose parameters are followed by a pointer to its panels, or NULL.
 */
#define DTN_PANEL_KERNELS(X)                                                                                           \
    X(conv2d_s8, CONV2D_S8) X(depthwise_conv2d_s8, DEPTHWISE_CONV2D_S8) X(fully_connected_s8, FULLY_CONNECTED_S8)

/** Their constants, which are at the same places in each. */
enum { DTN_PANEL_WEIGHTS = 1, DTN_PANEL_BIAS = 2, DTN_PANEL_REQUANT = 3 };
