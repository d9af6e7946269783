/**
 * @file
 * Zero point and limits of an output.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Zero point and limits of an output, and whether a sum may lie in the middle between two results: most factors are
 * such that none can, and need no look for it. */
typedef struct {
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
    bool ties;
} dtn_limits_t;
