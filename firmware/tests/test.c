#include "test.h"

#include <stdlib.h>

int test_failures = 0;

int test_result(void)
{
    if (test_failures != 0) {
        printf("%d failures\n", test_failures);
    }
    return test_failures == 0 ? 0 : 1;
}

int test_seeds(int count, char **arguments, bool (*call)(uint64_t seed), uint64_t most)
{
    uint64_t calls = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    uint64_t first = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < calls; i++) {
        taken += call(first + i) ? 1 : 0;
    }
    printf("calls %" PRIu64 " ran %" PRIu64 "\n", calls, taken);
    CHECK(calls == 1 || (taken > calls / 4 && taken < calls * most / 100), "the calls test too little");
    return test_result();
}
