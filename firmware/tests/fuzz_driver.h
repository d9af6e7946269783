/**
 * @file
 * The layout of an input of the driver's fuzz target.
 */
#pragma once

#include "fuzz_target.h"

/** Bytes before the blocks in an input. */
enum { FUZZ_PREFIX = 12 };
