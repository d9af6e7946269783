/*
 * The Ethos-U family, through the API of Arm's driver: either that driver, or Deuteron's, which executes commands on
 * the core. The working memory is its scratch memory, with the tensors of a call, and its fast scratch memory.
 */
#include <stddef.h>

#include "deuteron/microcode.h"
#include "deuteron/npu.h"
#include "deuteron/port.h"
#include "ethosu_driver.h"

/* The blocks in order; the words of command data; and the numbers of regions. */
enum { LAYOUT = 0, COMMANDS = 1, WEIGHTS = 2, BLOCKS = 3 };
enum { MAGIC = 0x31504F43, OPTIMISER = 1, OPTIMISER_WORDS = 3, STREAM = 2, NOTHING = 5 };
enum { SCRATCH_REGION = 1, FAST_REGION = 2, REGIONS = 3 };

/* A tensor's words in the layout. */
enum { OFFSET = 0, BYTES = 1, TENSOR_WORDS = 2 };

static const uint32_t *words_of(const dtn_partition_t *partition, uint32_t block)
{
    return (const uint32_t *)partition->blocks[block].data;
}

static uint32_t tensors_of(const uint32_t *layout)
{
    return layout[DTN_ETHOSU_LAYOUT_INPUTS] + layout[DTN_ETHOSU_LAYOUT_OUTPUTS];
}

static uint64_t aligned(uint32_t bytes)
{
    return ((uint64_t)bytes + DTN_ALIGNMENT - 1) / DTN_ALIGNMENT * DTN_ALIGNMENT;
}

/* True if the layout has its stated length, and its tensors are inside the scratch memory. */
static bool is_layout(const dtn_constant_t *block)
{
    const uint32_t *layout = (const uint32_t *)block->data;
    const uint32_t words = block->bytes / DTN_WORD_BYTES;
    if (words < DTN_ETHOSU_LAYOUT_TENSORS) {
        return false;
    }
    const uint32_t most = (words - DTN_ETHOSU_LAYOUT_TENSORS) / TENSOR_WORDS;
    if (layout[DTN_ETHOSU_LAYOUT_INPUTS] > most ||
        layout[DTN_ETHOSU_LAYOUT_OUTPUTS] > most - layout[DTN_ETHOSU_LAYOUT_INPUTS]) {
        return false;
    }
    const uint32_t scratch = layout[DTN_ETHOSU_LAYOUT_SCRATCH];
    const uint32_t *tensor = layout + DTN_ETHOSU_LAYOUT_TENSORS;
    for (uint32_t i = 0; i < tensors_of(layout); i++, tensor += TENSOR_WORDS) {
        if (tensor[OFFSET] > scratch || tensor[BYTES] > scratch - tensor[OFFSET]) {
            return false;
        }
    }
    return true;
}

/* True if the command data is one command stream that ends with its block, after words that drivers skip: drivers rely
 * on the lengths in it. */
static bool is_stream(const dtn_constant_t *block)
{
    const uint32_t *word = (const uint32_t *)block->data;
    uint32_t left = block->bytes / DTN_WORD_BYTES;
    if (left == 0 || block->bytes > INT32_MAX || *word != MAGIC) {
        return false;
    }
    for (uint32_t length = 1; left > length;) {
        left -= length;
        word += length;
        if ((*word & 0xFF) == STREAM) {
            return ((*word >> 16) | (*word >> 8 & 0xFF) << 16) == left - 1;
        }
        if ((*word & 0xFF) != OPTIMISER && (*word & 0xFF) != NOTHING) {
            return false;
        }
        length = (*word & 0xFF) == OPTIMISER ? OPTIMISER_WORDS : 1;
    }
    return false;
}

static NeutronError prepare(const dtn_partition_t *partition)
{
    const bool is_whole = partition->block_count == BLOCKS && is_layout(&partition->blocks[LAYOUT]) &&
                          is_stream(&partition->blocks[COMMANDS]);
    return is_whole ? ENONE : dtn_error(DTN_REASON_DELEGATE_BLOCK, partition->index);
}

/* End of the NPU's bytes in the working memory. */
static uint64_t npu_bytes(const uint32_t *layout)
{
    return aligned(layout[DTN_ETHOSU_LAYOUT_SCRATCH]) + aligned(layout[DTN_ETHOSU_LAYOUT_FAST]);
}

/* Offset of the records after them. */
static uint64_t records_at(const uint32_t *layout)
{
    return npu_bytes(layout) + DTN_ETHOSU_RECORDS_GAP;
}

static uint64_t working_bytes(const dtn_partition_t *partition)
{
    const uint32_t *layout = words_of(partition, LAYOUT);
    const uint64_t recorded = layout[DTN_ETHOSU_LAYOUT_RECORDED];
    return recorded == 0 ? npu_bytes(layout) : records_at(layout) + (recorded + 1) * DTN_PROFILE_RECORD_BYTES;
}

static dtn_reason_t check(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const uint32_t *layout = words_of(partition, LAYOUT);
    if (call->input_count != layout[DTN_ETHOSU_LAYOUT_INPUTS] ||
        call->output_count != layout[DTN_ETHOSU_LAYOUT_OUTPUTS]) {
        return DTN_REASON_DELEGATE;
    }
    const uint32_t *tensor = layout + DTN_ETHOSU_LAYOUT_TENSORS;
    for (uint32_t i = 0; i < tensors_of(layout); i++, tensor += TENSOR_WORDS) {
        const dtn_tensor_t own = dtn_npu_tensor(call, i);
        const uintptr_t offset = (uintptr_t)own.data - (uintptr_t)partition->working;
        if (own.bytes != tensor[BYTES] || offset < working_bytes(partition)) {
            return DTN_REASON_DELEGATE;
        }
    }
    return DTN_OK;
}

static void *place(const dtn_partition_t *partition, uint32_t index)
{
    const uint32_t *layout = words_of(partition, LAYOUT);
    return (uint8_t *)partition->working + layout[DTN_ETHOSU_LAYOUT_TENSORS + index * TENSOR_WORDS + OFFSET];
}

#if DTN_PROFILING
enum { START = 1, STOP = 3, RECORD_WORDS = 4 };

static uint32_t *records_of(const dtn_partition_t *partition)
{
    return (uint32_t *)(void *)((uint8_t *)partition->working + records_at(words_of(partition, LAYOUT)));
}

/* Defined by Deuteron's driver only: an image may be linked with another driver than the header's. */
extern const bool dtn_ethosu_waits_in_steps __attribute__((weak));

static bool waits_in_steps(void)
{
    return &dtn_ethosu_waits_in_steps != NULL;
}

/* Number of records of a run: one for each operation, if the driver reports steps, and the last one for all. */
static uint32_t record_count(const dtn_partition_t *partition)
{
    const uint32_t recorded = words_of(partition, LAYOUT)[DTN_ETHOSU_LAYOUT_RECORDED];
    return recorded == 0 ? 0 : waits_in_steps() ? recorded + 1 : 1;
}

/* Waits for a job, and records it; not 0 if it failed, or had fewer operations than the layout has. */
static int wait_recorded(struct ethosu_driver *driver, const dtn_partition_t *partition)
{
    uint32_t *record = records_of(partition);
    uint32_t left = record_count(partition);
    const uint32_t begin = dtn_port_ticks();
    uint32_t start = begin;
    uint32_t stop = begin;
    int state = 1;
    while (state == 1) {
        state = ethosu_wait(driver, left <= 1);
        stop = dtn_port_ticks();
        if (state == 1 && left > 1) {
            record[START] = start;
            record[STOP] = stop;
            record += RECORD_WORDS;
            left--;
        }
        start = stop;
    }
    if (left == 1) {
        record[START] = stop;
        record[STOP] = begin;
    }
    return state == 0 && left > 1 ? -1 : state;
}

static const uint32_t *records(const dtn_partition_t *partition, uint32_t *count)
{
    *count = record_count(partition);
    return records_of(partition);
}
#endif

/* Defined by Deuteron's driver, or by an application that knows another driver's faults. */
uint32_t dtn_ethosu_driver_fault(const struct ethosu_driver *drv) __attribute__((weak));

static NeutronError run(const dtn_partition_t *partition)
{
    const uint32_t *layout = words_of(partition, LAYOUT);
    const dtn_constant_t *commands = &partition->blocks[COMMANDS];
    const size_t bytes[REGIONS] = {partition->blocks[WEIGHTS].bytes, layout[DTN_ETHOSU_LAYOUT_SCRATCH],
                                   layout[DTN_ETHOSU_LAYOUT_FAST]};
    uint8_t *fast = (uint8_t *)partition->working + aligned(layout[DTN_ETHOSU_LAYOUT_SCRATCH]);
    uint64_t bases[REGIONS] = {(uintptr_t)partition->blocks[WEIGHTS].data, (uintptr_t)partition->working,
                               (uintptr_t)fast};
    struct ethosu_driver *driver = ethosu_reserve_driver();
    if (driver == NULL) {
        return dtn_error(DTN_REASON_NPU_BUSY, partition->index);
    }
    const int regions = bytes[FAST_REGION] == 0 ? FAST_REGION : REGIONS;
#if DTN_PROFILING
    int failed = ethosu_invoke_async(driver, commands->data, (int)commands->bytes, bases, bytes, regions, NULL);
    failed = failed != 0 ? failed : wait_recorded(driver, partition);
#else
    const int failed = ethosu_invoke_v3(driver, commands->data, (int)commands->bytes, bases, bytes, regions, NULL);
#endif
    const uint32_t fault = failed != 0 && dtn_ethosu_driver_fault != NULL ? dtn_ethosu_driver_fault(driver) : 0;
    ethosu_release_driver(driver);
    return failed != 0 ? dtn_error(DTN_REASON_NPU_RUN, fault) : ENONE;
}

static NeutronError unprepare(const dtn_partition_t *partition)
{
    (void)partition;
    return ENONE;
}

static const dtn_npu_apart_t apart = {.place = place, .run = run};

const dtn_npu_t dtn_npu_ethosu = {
    .prepare = prepare,
    .working_bytes = working_bytes,
    .check = check,
    .run = dtn_npu_run_apart,
    .apart = &apart,
    .unprepare = unprepare,
#if DTN_PROFILING
    .records = records,
#endif
};
