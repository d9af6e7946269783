/**
 * @file
 * A fuzz target, for libFuzzer and for the runner that needs no fuzzing compiler: what each one defines.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Largest input that `fuzz_valid` writes, and a size that it exceeds. */
enum { FUZZ_MAX_INPUT = 1 << 18, FUZZ_MIN_INPUT = 64 };

/** The result of an input. */
typedef enum { FUZZ_REFUSED, FUZZ_TOO_LARGE, FUZZ_FAILED, FUZZ_RAN } fuzz_outcome_t;

/** Prepares and runs one input; a finding ends the process, as the sanitizers do. */
fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size);

/** Writes a valid input to `input`, which holds FUZZ_MAX_INPUT bytes; returns its size. The numbers drawn from `state`
 * determine it. */
size_t fuzz_valid(uint64_t *state, uint8_t *input);

/** Changes up to three things: words mostly, now and then any byte or the length; returns the new size. */
size_t fuzz_mutate(uint64_t *state, uint8_t *input, size_t size);
