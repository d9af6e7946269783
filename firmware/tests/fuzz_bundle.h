/**
 * @file
 * The words at the start of an input of the bundles' fuzz target.
 */
#pragma once

#include "fuzz_target.h"

enum {
    FUZZ_MODE = 0, /**< bit 0: make all CRCs right, so that the checks behind them are reached */
    FUZZ_VERSION = 1,
    FUZZ_COUNTS_CRC = 2,
    FUZZ_CRC = 3,
    FUZZ_COUNTS = 4, /**< in the order of `dtn_bundle_t` */
    FUZZ_COUNT_WORDS = 9,
    FUZZ_HEAD = FUZZ_COUNTS + FUZZ_COUNT_WORDS,
};
