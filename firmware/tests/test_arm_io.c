/* The copies of ExecuTorch's Ethos-U delegate: they use the port's hooks, and a copy that fails makes the next invoke
 * fail.
 */
#include <pthread.h>
#include <string.h>

#include "deuteron/arm_io.h"
#include "deuteron/io.h"
#include "ethosu_driver.h"
#include "test.h"

/* Runs of the driver in arm_io_driver.c. */
extern int runs;

/* A port whose copies are made when they are waited for, and which fails on request; it always does without a source.
 */
static void *target;
static const void *source;
static size_t bytes;
static int starts, waits;
static bool start_fails, wait_fails;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    if (src == NULL) {
        return -1;
    }
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

/* The job of an inference whose scratch memory is region 1, as that delegate has it. */
static int invoke(uint8_t *scratch, size_t size)
{
    static const uint8_t weights[16];
    uint64_t bases[] = {(uint64_t)(uintptr_t)weights, (uint64_t)(uintptr_t)scratch};
    const size_t sizes[] = {sizeof weights, size};
    return ethosu_invoke_v3(NULL, NULL, 0, bases, sizes, 2, NULL);
}

/* An inference as that delegate makes it: its error, if invoke has one. */
static int infer(const uint8_t *input, uint8_t *scratch, uint8_t *output, size_t size)
{
    arm_ethos_io_memcpy(scratch, input, size);
    const int error = invoke(scratch, size);
    if (error == 0) {
        arm_ethos_io_memcpy(output, scratch, size);
    }
    return error;
}

/* A thread's copy fails while another is between its copy and its job: only the first fails. */
static void test_two_threads(void)
{
    uint8_t input[4] = {0};
    uint8_t scratch[2][4] = {{0}};
    runs = 0;
    arm_ethos_io_memcpy(scratch[0], input, sizeof input);
    start_fails = true;
    arm_ethos_io_memcpy(scratch[1] + 1, input, 3);
    start_fails = false;
    CHECK_EQUAL(invoke(scratch[0], sizeof input), 0);
    CHECK_EQUAL(invoke(scratch[1], sizeof input), -1);
    CHECK_EQUAL(runs, 1);
    CHECK_EQUAL(invoke(scratch[1], sizeof input), 0);
    /* Its outputs, of which the next inference on that memory tells; a job without sizes may be any's. */
    wait_fails = true;
    arm_ethos_io_memcpy(input, scratch[1], sizeof input);
    CHECK_EQUAL(invoke(scratch[0], sizeof input), 0);
    CHECK_EQUAL(invoke(scratch[1], sizeof input), -1);
    arm_ethos_io_memcpy(scratch[1], input, sizeof input);
    wait_fails = false;
    CHECK_EQUAL(ethosu_invoke_v3(NULL, NULL, 0, NULL, NULL, 0, NULL), -1);
    CHECK(!dtn_arm_io_failed(), "a failure was reported twice");
}

/* More failures than there are places for let every inference fail, until someone asks. */
static void test_many_failures(void)
{
    uint8_t input[9] = {0};
    uint8_t scratch[sizeof input] = {0};
    for (size_t failed = 8; failed <= 9; failed++) {
        start_fails = true;
        for (size_t i = 0; i < failed; i++) {
            arm_ethos_io_memcpy(scratch + i, input + i, 1);
        }
        start_fails = false;
        uint8_t other[4];
        CHECK_EQUAL(invoke(other, sizeof other), failed == 8 ? 0 : -1);
        CHECK_EQUAL(invoke(scratch, sizeof scratch), -1);
        CHECK_EQUAL(invoke(scratch, sizeof scratch), failed == 8 ? 0 : -1);
        CHECK(dtn_arm_io_failed() == (failed == 9), "%u failures, and none or one too many reported", (unsigned)failed);
        CHECK_EQUAL(invoke(scratch, sizeof scratch), 0);
    }
}

/* Inferences at the same time, every other one of which fails, tell of their own failures alone. */
enum { THREADS = 3, INFERENCES = 300 };

static void *infer_often(void *wrong)
{
    uint8_t scratch[4];
    for (int i = 0; i < INFERENCES; i++) {
        if (i % 2 == 1) {
            arm_ethos_io_memcpy(scratch, NULL, sizeof scratch);
        }
        *(int *)wrong += invoke(scratch, sizeof scratch) != (i % 2 == 1 ? -1 : 0);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, infer_often, &wrong[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK_EQUAL(wrong[i], 0);
    }
    CHECK(!dtn_arm_io_failed(), "a failure was not reported");
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
        CHECK(dtn_arm_io_failed() && !dtn_arm_io_failed(), "a failed copy of outputs is not reported once");
    }
    test_two_threads();
    test_many_failures();
    test_threads();
    return test_result();
}
