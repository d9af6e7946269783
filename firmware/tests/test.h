/**
 * @file
 * The whole of the test framework: checks that count failures, and a random number generator with a seed.
 */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Failures so far in this program; main returns `test_result()`. */
extern int test_failures;

/** Reports the failure when `condition` is false, with the place and a printf text. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            test_failures++;                                                                                           \
            printf("%s:%d: ", __FILE__, __LINE__);                                                                     \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

/** Checks that two integers are equal. */
#define CHECK_EQUAL(found, expected)                                                                                   \
    CHECK((intmax_t)(found) == (intmax_t)(expected), "%s is %jd, expected %jd", #found, (intmax_t)(found),             \
          (intmax_t)(expected))

/** 0 when nothing failed, else 1; prints the number of failures. */
int test_result(void);

/**
 * The result of a program of random calls, whose arguments are how many calls, and the seed of the first. `call` makes
 * one, and is true when the operator took it. More than a quarter of many, and less than `most` percent must be taken.
 */
int test_seeds(int count, char **arguments, bool (*call)(uint64_t seed), uint64_t most);

/** The next number of the sequence that `state` (never 0) stands for. */
static inline uint64_t test_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/** A random number from lo to hi, both included. */
static inline int32_t test_between(uint64_t *state, int32_t lo, int32_t hi)
{
    return (int32_t)(lo + (int64_t)((test_random(state) >> 33) % (uint64_t)((int64_t)hi - lo + 1)));
}
