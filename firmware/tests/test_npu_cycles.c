/* The NPU's own counter is read before and after each partition's step, for who wants events, and at no other time. */
#include "deuteron/port.h"
#include "small_program.h"
#include "test.h"

enum { EVENTS = 64, PARTITIONS = 2 };

static uint32_t looks;

bool dtn_port_npu_cycles(uint32_t *cycles)
{
    *cycles = 1000U * ++looks;
    return true;
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
    CHECK_EQUAL(looks, 0);
    executor.events = events;
    executor.event_capacity = EVENTS;
    CHECK_EQUAL(dtn_executor_run(&executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK_EQUAL(looks, 2 * PARTITIONS);
    uint32_t counted = 0;
    for (uint32_t i = 0; i < executor.event_count; i++) {
        if (events[i].kind == DTN_EVENT_NPU) {
            CHECK_EQUAL(events[i].index, SMALL_FIRST + counted);
            CHECK_EQUAL(events[i].stop - events[i].start, 1000);
            counted++;
        }
    }
    CHECK_EQUAL(counted, PARTITIONS);
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    small_free(&small);
    return test_result();
}
