/* The NPU's own counters are read before and after each partition's step, for who wants events, and at no other time.
 */
#include "deuteron/port.h"
#include "small_bundle.h"
#include "test.h"

enum { EVENTS = 64, PARTITIONS = 2, COUNTED = 0x21 };

static uint32_t looks;
static uint32_t counters; /* besides the counter of cycles */
static uint32_t asked;

bool dtn_port_npu_cycles(uint32_t *cycles)
{
    *cycles = 1000U * ++looks;
    return true;
}

bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count)
{
    asked++;
    *what = COUNTED + index;
    *count = looks * (index + 1) - 5;
    return index < counters;
}

/* Checks the events of a run, and how often the port was asked. */
static void check_run(dtn_executor_t *executor, small_buffers_t *buffers, const dtn_event_t *events, uint32_t wanted)
{
    looks = 0;
    asked = 0;
    CHECK_EQUAL(dtn_executor_run(executor, buffers->inputs, buffers->outputs), ENONE);
    CHECK_EQUAL(looks, 2 * PARTITIONS);
    CHECK_EQUAL(asked, 2 * PARTITIONS * (wanted + (wanted < DTN_NPU_COUNTERS)));
    uint32_t partition = 0;
    uint32_t seen = 0; /* of the counters of a partition */
    for (uint32_t i = 0; i < executor->event_count; i++) {
        const uint32_t kind = events[i].kind & 0xFF;
        const uint32_t counted = events[i].stop - events[i].start;
        if (kind == DTN_EVENT_NPU) {
            CHECK_EQUAL(events[i].index, SMALL_FIRST + partition);
            CHECK_EQUAL(counted, 1000);
            partition++;
            seen = 0;
        } else if (kind == DTN_EVENT_COUNTER) {
            CHECK_EQUAL(events[i].index, SMALL_FIRST + partition - 1);
            CHECK_EQUAL(events[i].kind >> 8, COUNTED + seen);
            CHECK_EQUAL(counted, seen + 1);
            seen++;
            CHECK(seen <= wanted, "%u counters", (unsigned)seen);
        }
    }
    CHECK_EQUAL(partition, PARTITIONS);
    CHECK_EQUAL(seen, wanted);
}

int main(void)
{
    dtn_event_t events[EVENTS];
    dtn_executor_t executor;
    small_buffers_t buffers;
    small_t small;
    small_start(&small);
    small_fill(&buffers, 1);
    CHECK_EQUAL(dtn_executor_init(&executor, &small.program.bundle, small.program.memories), ENONE);
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK(looks == 0 && asked == 0, "counters are read without a reader");
    executor.events = events;
    executor.event_capacity = EVENTS;
    check_run(&executor, &buffers, events, 0);
    counters = 3;
    check_run(&executor, &buffers, events, counters);
    counters = UINT32_MAX;
    check_run(&executor, &buffers, events, DTN_NPU_COUNTERS);
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
    return test_result();
}
