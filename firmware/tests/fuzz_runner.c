/*
 * Runs a fuzz target on valid inputs and mutations of them, deterministically: NAME COUNT [FIRST_SEED].
 *
 * Prints how the mutations ended. A finding ends the process before that, with the sanitizers' report. Each run depends
 * on its seed only, so that `NAME 1 SEED` repeats it; benches/fuzzing.py finds the seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz_target.h"

int main(int argc, char **argv)
{
    static uint8_t input[FUZZ_MAX_INPUT];
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t outcomes[FUZZ_RAN + 1] = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint64_t state = (seed * UINT64_C(0x9E3779B97F4A7C15)) | 1U;
        size_t size = fuzz_valid(&state, input);
        if (fuzz_one(input, size) == FUZZ_REFUSED) {
            printf("the valid input of seed %" PRIu64 " is refused\n", seed);
            return 1;
        }
        size = fuzz_mutate(&state, input, size);
        outcomes[fuzz_one(input, size)]++;
    }
    printf("runs %" PRIu64 " refused %" PRIu64 " too_large %" PRIu64 " failed %" PRIu64 " ran %" PRIu64 "\n", count,
           outcomes[FUZZ_REFUSED], outcomes[FUZZ_TOO_LARGE], outcomes[FUZZ_FAILED], outcomes[FUZZ_RAN]);
    /* Mutations that are all refused, or none, would test little. */
    return count < 1000 || (outcomes[FUZZ_RAN] * 20 > count && outcomes[FUZZ_REFUSED] * 20 > count) ? 0 : 1;
}
