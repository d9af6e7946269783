/*
 * Sample: serves the harness over a serial line, for `deuteron run` and `deuteron profile` with `--on serial:PORT`.
 *
 * `line_zephyr.c` has the line for Zephyr, `line_cmsis.c` for a CMSIS-Driver. The program is a bundle that was written
 * with `--harness NAME`. Its memory for events holds one for each step.
 */
#include "deuteron/driver.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
#include "dtn_bundle.h"
#include "image.h"
#include "line.h"

#define CPUID (*(const volatile uint32_t *)0xE000ED00U)

static dtn_executor_t executor;
static dtn_harness_t harness;

/* The depth of the stack is unknown: an operating system or the start-up code owns it. */
uint32_t dtn_stack_used(void)
{
    return 0;
}

int main(void)
{
    const dtn_harness_image_t *image = &dtn_harness_image;
    if (!line_start()) {
        return 1;
    }
    NeutronError error = neutronInit();
    uint32_t start = dtn_port_ticks();
    if (error == ENONE) {
        error = dtn_executor_init(&executor, &dtn_bundle, dtn_bundle_memories);
    }
    uint32_t ticks = dtn_port_ticks() - start;
    executor.events = image->events;
    executor.event_capacity = image->event_capacity;
    harness.bundle = &dtn_bundle;
    harness.executor = &executor;
    harness.info = (dtn_harness_info_t){
        .board = image->board,
        .program = image->program,
        .core_hz = line_core_hz(),
        .ticks_hz = line_ticks_hz(),
        .tick_unit = image->tick_unit,
        .core = CPUID,
        .init_error = (uint32_t)error,
        .init_ticks = ticks,
        .is_npu_emulated = image->is_npu_emulated,
    };
    for (;;) {
        dtn_harness_poll(&harness);
    }
}
