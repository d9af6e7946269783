/**
 * @file
 * Faults of the units that copy memory, put in on purpose, for tests. Only images that link faults.c, with
 * `-Wl,--wrap=dtn_dma_start,--wrap=dtn_dma_stop`, have them.
 *
 * The runner's option `--fault UNIT:KIND:N` lets the copy number N of a unit, counted from 0, go wrong:
 *
 *   io:... fetch:...   which unit: that of inputs and outputs, or that of the weights
 *   ...:fail:N         nothing is copied, and the unit reports an error
 *   ...:partial:N      half is copied, and the unit reports an error
 *   ...:never:N        nothing is copied, and the unit reports nothing
 *   ...:late:N:US      the copy starts after this many microseconds, at most 500000
 */
#ifndef DTN_FAULTS_H
#define DTN_FAULTS_H

#include <stdbool.h>

/** Takes the option; false when it is wrong. A NULL pointer in images without faults.c. */
__attribute__((weak)) bool dtn_faults_set(const char *option);

#endif /* DTN_FAULTS_H */
