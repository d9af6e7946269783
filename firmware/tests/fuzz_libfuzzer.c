/* A fuzz target for libFuzzer; its mutator starts from valid inputs, so that no corpus is needed. */
#include <string.h>

#include "fuzz_target.h"

/* Names and types are libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_one(data, size);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    static uint8_t fresh[FUZZ_MAX_INPUT];
    uint64_t state = ((uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15)) | 1U;
    if (size < FUZZ_MIN_INPUT || seed % 16 == 0) {
        size_t fresh_size = fuzz_valid(&state, fresh);
        if (fresh_size <= max_size) {
            memcpy(data, fresh, fresh_size);
            size = fresh_size;
        }
    }
    return fuzz_mutate(&state, data, size);
}
