/* What ExecuTorch's Ethos-U delegate copies by: over the port's hooks, and a copy that fails lets the next invoke fail.
 */
#include <string.h>

#include "deuteron/arm_io.h"
#include "deuteron/io.h"
#include "ethosu_driver.h"
#include "test.h"

/* Runs of the driver in arm_io_driver.c. */
extern int runs;

/* A port whose copies are made when they are waited for, and which can be told to fail. */
static void *target;
static const void *source;
static size_t bytes;
static int starts, waits;
static bool start_fails, wait_fails;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    starts++;
    target = dst;
    source = src;
    bytes = size;
    return start_fails ? -1 : 0;
}

int32_t dtn_io_copy_wait(void)
{
    waits++;
    memcpy(target, source, wait_fails ? bytes / 2 : bytes);
    return wait_fails ? -1 : 0;
}

/* An inference as that delegate makes it: its error, if invoke has one. */
static int infer(const uint8_t *input, uint8_t *scratch, uint8_t *output, size_t size)
{
    arm_ethos_io_memcpy(scratch, input, size);
    const int error = ethosu_invoke_v3(NULL, NULL, 0, NULL, NULL, 0, NULL);
    if (error == 0) {
        arm_ethos_io_memcpy(output, scratch, size);
    }
    return error;
}

int main(void)
{
    uint8_t input[] = {1, 2, 3, 4};
    uint8_t scratch[sizeof input] = {0};
    uint8_t output[sizeof input] = {0};
    CHECK_EQUAL(infer(input, scratch, output, sizeof input), 0);
    CHECK(memcmp(input, output, sizeof input) == 0 && starts == 2 && waits == 2, "%d starts, %d waits", starts, waits);
    arm_ethos_io_memcpy(scratch, input, 0);
    CHECK_EQUAL(starts, 2);
    for (int kind = 0; kind < 2; kind++) {
        start_fails = kind == 0;
        wait_fails = kind == 1;
        runs = 0;
        CHECK_EQUAL(infer(input, scratch, output, sizeof input), -1);
        CHECK_EQUAL(runs, 0);
        start_fails = wait_fails = false;
        memset(output, 0, sizeof output);
        CHECK_EQUAL(infer(input, scratch, output, sizeof input), 0); /* the next is right again */
        CHECK(memcmp(input, output, sizeof input) == 0, "the output is wrong after a failure");
        CHECK(!dtn_arm_io_failed(), "a failure was not forgotten");
        wait_fails = true;
        arm_ethos_io_memcpy(output, scratch, sizeof output); /* of the last inference: the next tells, or this */
        wait_fails = false;
        CHECK(dtn_arm_io_failed() && !dtn_arm_io_failed(), "a failed copy of outputs is not told once");
    }
    return test_result();
}
