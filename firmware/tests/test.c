#include "test.h"

int test_failures = 0;

int test_result(void)
{
    if (test_failures != 0) {
        printf("%d failures\n", test_failures);
    }
    return test_failures == 0 ? 0 : 1;
}
