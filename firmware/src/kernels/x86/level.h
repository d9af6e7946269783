/**
 * @file
 * Names of functions that are compiled once per level of vector instructions: DTN_LEVEL is that level's name.
 */
#pragma once

#include <stddef.h>

#include "levels.h"

#define DTN_LEVEL_JOIN(name, level) name##_##level
#define DTN_LEVEL_EXPAND(name, level) DTN_LEVEL_JOIN(name, level)
#define DTN_LEVEL_NAME(name) DTN_LEVEL_EXPAND(name, DTN_LEVEL)

#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    int32_t DTN_LEVEL_NAME(dtn_k_##name)(const dtn_call_t *call, dtn_phase_t phase);
DTN_KERNELS(DTN_X)
#undef DTN_X

#define DTN_X(name, NAME)                                                                                              \
    size_t DTN_LEVEL_NAME(dtn_panels_##name)(const dtn_call_t *call, int32_t *panels);                                 \
    int32_t DTN_LEVEL_NAME(dtn_paneled_##name)(const dtn_call_t *call, dtn_phase_t phase);
DTN_PANEL_KERNELS(DTN_X)
#undef DTN_X
