/**
 * @file
 * Helpers of fuzz targets: initial containers, values for changed words, late copies, and a bound of the work.
 */
#pragma once

#include "../src/driver/types.h"
#include "container_builder.h"

/** Bytes of memory that one input may ask for; bounds the fuzzer's time, not the driver. */
enum { FUZZ_MAX_BLOCK = 1 << 20 };

/** True for a checked model with little work to do and little memory needed. */
bool fuzz_is_bounded(const dtn_model_t *model);

/** Installs hooks that copy when they are waited for; until then the address sanitizer sees every use of the bytes. */
void fuzz_late_copies(void);

/** Ends the process when a copy would outlive the run. */
void fuzz_no_copy_left(void);

/** Builds a container of one to three random calls, sometimes profiled, sometimes with prefetched constants and with
 * fetches in flight during the calls, sometimes with places of inputs and outputs in scratch. */
void fuzz_container(build_t *build, uint64_t *state);

/** A word that is likely to sit on an edge, or near the old one. */
uint32_t fuzz_edge_word(uint64_t *state, uint32_t old);
