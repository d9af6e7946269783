/*
 * The executor's records of an Ethos-U's run, with two drivers of this test: one distinguishes operations, one does
 * not. This file is compiled twice: DTN_TEST_STEPS says which driver it has.
 */
#include <string.h>

#include "deuteron/microcode.h"
#include "deuteron/npu.h"
#include "deuteron/port.h"
#include "ethosu_driver.h"
#include "test.h"

enum {
    SCRATCH = 16,
    FAST = 32,
    RECORDED = 5,
    LINE = 64,
    TENSOR = 16,
    MEMORY_BYTES = 512,
    UNWRITTEN = 0x5A5A5A5A,
    RECORD_WORDS = 4
};

#if DTN_TEST_STEPS
const bool dtn_ethosu_waits_in_steps = true;
#endif

static struct ethosu_driver driver;
static uint32_t left; /* operations of the job that have not run */
static uint32_t now;
static dtn_tensor_t tensors[2]; /* of a call */

struct ethosu_driver *ethosu_reserve_driver(void)
{
    return &driver;
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
    (void)drv;
}

int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg)
{
    (void)drv, (void)custom_data_ptr, (void)custom_data_size, (void)base_addr, (void)base_addr_size;
    (void)num_base_addr, (void)user_arg;
    return 0;
}

/* Without blocking, one operation; Arm's driver would only look, and say that the job runs. */
int ethosu_wait(struct ethosu_driver *drv, bool block)
{
    (void)drv;
    if (block || left == 0) {
        return 0;
    }
    left -= DTN_TEST_STEPS;
    return 1;
}

/* Functions that only whole programs call. */
NeutronError dtn_npu_run_apart(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    (void)partition, (void)call;
    return ENONE;
}

dtn_tensor_t dtn_npu_tensor(const dtn_npu_call_t *call, uint32_t index)
{
    (void)call;
    return tensors[index];
}

uint32_t dtn_port_ticks(void)
{
    return ++now;
}

/* Runs a job of that many operations whose layout has records for `recorded`; the error. */
static NeutronError run(uint32_t operations, uint32_t recorded, dtn_partition_t *partition)
{
    static __attribute__((aligned(LINE))) uint8_t working[MEMORY_BYTES];
    static uint32_t layout[] = {SCRATCH, FAST, 0, 0, RECORDED};
    static const dtn_constant_t blocks[] = {{(const uint8_t *)layout, sizeof layout, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    layout[DTN_ETHOSU_LAYOUT_RECORDED] = recorded;
    memset(working, 0x5A, sizeof working);
    *partition = (dtn_partition_t){.blocks = blocks, .block_count = 3, .working = working};
    left = operations;
    return dtn_npu_ethosu.apart->run(partition);
}

/* Tensors are apart from the working memory: their copies there are the NPU's to write. */
static void test_tensors(void)
{
    static __attribute__((aligned(LINE))) uint8_t memory[MEMORY_BYTES];
    static const uint32_t layout[] = {SCRATCH, FAST, 1, 1, RECORDED, 0, TENSOR, 0, TENSOR};
    static const dtn_constant_t blocks[] = {{(const uint8_t *)layout, sizeof layout, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    const dtn_partition_t partition = {.blocks = blocks, .block_count = 3, .working = memory + LINE};
    const dtn_npu_call_t call = {NULL, 1, 1, 0};
    const uint32_t end = LINE + (uint32_t)dtn_npu_ethosu.working_bytes(&partition);
    for (uint32_t at = 0; at + TENSOR <= MEMORY_BYTES; at += TENSOR) {
        for (uint32_t i = 0; i < 2; i++) {
            tensors[i] = (dtn_tensor_t){memory + at, TENSOR, DTN_TYPE_S8};
            tensors[1 - i] = (dtn_tensor_t){memory, TENSOR, DTN_TYPE_S8};
            CHECK_EQUAL(dtn_npu_ethosu.check(&partition, &call), at < LINE || at >= end ? DTN_OK : DTN_REASON_DELEGATE);
        }
    }
}

int main(void)
{
    test_tensors();
    dtn_partition_t partition;
    uint32_t count = 0;
    CHECK_EQUAL(run(RECORDED, RECORDED, &partition), ENONE);
    const uint32_t *records = dtn_npu_ethosu.records(&partition, &count);
    const size_t at = (size_t)((const uint8_t *)records - (const uint8_t *)partition.working);
    CHECK_EQUAL(count, DTN_TEST_STEPS ? RECORDED + 1 : 1);
    for (uint32_t i = 0; i < count; i++) {
        /* The last goes backwards. */
        const uint32_t begin = records[i * RECORD_WORDS + (i + 1 < count ? 1 : 3)];
        const uint32_t end = records[i * RECORD_WORDS + (i + 1 < count ? 3 : 1)];
        CHECK(begin < end && end != UNWRITTEN, "record %u was not written", (unsigned)i);
    }
    /* Wherever the working memory starts, no line has both what the NPU writes and a record. */
    CHECK(at >= SCRATCH + FAST + LINE, "the records stand at %u", (unsigned)at);
    CHECK(dtn_npu_ethosu.working_bytes(&partition) == at + (RECORDED + 1) * DTN_PROFILE_RECORD_BYTES,
          "the records end behind the working memory");
#if DTN_TEST_STEPS
    /* With fewer operations than in the layout, some records would be unwritten. */
    CHECK_EQUAL(run(1, RECORDED, &partition), dtn_error(DTN_REASON_NPU_RUN, 0));
    CHECK_EQUAL(run(RECORDED + 2, RECORDED, &partition), ENONE);
#endif
    /* Nor how many run, of commands with branches: nothing is recorded then. */
    for (uint32_t operations = 0; operations < 2 * RECORDED; operations++) {
        CHECK_EQUAL(run(operations, 0, &partition), ENONE);
        (void)dtn_npu_ethosu.records(&partition, &count);
        CHECK_EQUAL(count, 0);
    }
    return test_result();
}
