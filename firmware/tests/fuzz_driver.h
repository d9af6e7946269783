/**
 * @file
 * What the two files of the driver's fuzz target share.
 */
#pragma once

#include "fuzz_target.h"

/** Bytes before the blocks in an input. */
enum { FUZZ_PREFIX = 12 };
