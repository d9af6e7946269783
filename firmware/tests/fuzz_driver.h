/**
 * @file
 * The fuzz target, for libFuzzer and for the runner that needs no fuzzing compiler.
 */
#ifndef DTN_FUZZ_DRIVER_H
#define DTN_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/** Bytes before the blocks in an input. */
enum { FUZZ_PREFIX = 12 };

/** What became of an input. */
typedef enum { FUZZ_REFUSED, FUZZ_TOO_LARGE, FUZZ_FAILED, FUZZ_RAN } fuzz_outcome_t;

/** Prepares and runs one input; a finding ends the process, as the sanitizers do. */
fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size);

#endif /* DTN_FUZZ_DRIVER_H */
