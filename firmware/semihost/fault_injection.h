/**
 * @file
 * Fault injection for the units that copy memory, for tests. Only images that link fault_injection.c, with
 * `-Wl,--wrap=dtn_dma_start,--wrap=dtn_dma_stop`, have it.
 *
 * The runner's option `--fault UNIT:KIND:N` makes copy number N of a unit, counted from 0, fail:
 *
 *   io:... fetch:...   the unit: for inputs and outputs, or for weights
 *   ...:fail:N         nothing is copied, and the unit reports an error
 *   ...:partial:N      half is copied, and the unit reports an error
 *   ...:never:N        nothing is copied, and the unit reports nothing
 *   ...:late:N:US      the copy starts after this many microseconds, at most 500000
 */
#pragma once

#include <stdbool.h>

/** Reads the option; returns false if it is wrong. A NULL pointer in images without fault_injection.c. */
__attribute__((weak)) bool dtn_faults_set(const char *option);
