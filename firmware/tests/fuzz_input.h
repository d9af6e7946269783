/**
 * @file
 * Inputs of the fuzz target; the numbers drawn from `state` determine them.
 */
#ifndef DTN_FUZZ_INPUT_H
#define DTN_FUZZ_INPUT_H

#include "fuzz_driver.h"

/** Largest input that `fuzz_valid` writes. */
enum { FUZZ_MAX_INPUT = 1 << 18 };

/** Writes a valid container of random calls to `input`, which holds FUZZ_MAX_INPUT bytes; returns its size. */
size_t fuzz_valid(uint64_t *state, uint8_t *input);

/** Changes up to three things: words of the microcode mostly, now and then any byte or the length; returns the new
 * size. */
size_t fuzz_mutate(uint64_t *state, uint8_t *input, size_t size);

#endif /* DTN_FUZZ_INPUT_H */
