/**
 * @file
 * Zero point and limits of an output.
 */
#ifndef DTN_LIMITS_H
#define DTN_LIMITS_H

#include <stdint.h>

/** Zero point and limits of an output. */
typedef struct {
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_limits_t;

#endif /* DTN_LIMITS_H */
