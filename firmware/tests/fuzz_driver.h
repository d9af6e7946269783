/**
 * @file
 * What the two files of the driver's fuzz target share.
 */
#ifndef DTN_FUZZ_DRIVER_H
#define DTN_FUZZ_DRIVER_H

#include "fuzz_target.h"

/** Bytes before the blocks in an input. */
enum { FUZZ_PREFIX = 12 };

#endif /* DTN_FUZZ_DRIVER_H */
