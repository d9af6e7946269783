/* The application of an image with the harness: prepares the program, then serves the line. */
#include "board.h"
#include "core.h"
#include "deuteron/errors.h"
#include "deuteron/harness.h"
#include "image.h"
#include "prepare.h"
#include "startup.h"
#include "trigger.h"
#include "uart.h"

/* NULL if the port has no pins for an energy meter. */
__attribute__((weak)) void dtn_trigger_start(void);

int main(void);

static dtn_executor_t executor;
static dtn_harness_t harness;

/* Reports the fault, and again after each frame that arrives: the report may get lost, too. */
void dtn_fault(const dtn_fault_t *fault)
{
    for (;;) {
        dtn_harness_fault(&harness, fault, sizeof *fault);
        while (dtn_port_getc() != 0) {
        }
    }
}

int main(void)
{
    const dtn_harness_image_t *image = &dtn_harness_image;
    dtn_uart_start(); /* before the preparation, which is the likeliest place of a fault */
    if (dtn_trigger_start != NULL) {
        dtn_trigger_start();
    }
    dtn_prepared_t prepared = dtn_runner_prepare(&executor, image->flash_latency_ns, image->flash_bytes_per_second);
    if (prepared.error == ENONE && !prepared.is_npu_started) {
        prepared.error = dtn_error(DTN_REASON_NPU_BUSY, 0);
    }
    executor.events = image->events;
    executor.event_capacity = image->event_capacity;
    harness.bundle = &dtn_bundle;
    harness.executor = &executor;
    harness.info = (dtn_harness_info_t){
        .board = image->board,
        .program = image->program,
        .core_hz = DTN_CORE_HZ,
        .ticks_hz = DTN_TICKS_HZ,
        .tick_unit = image->tick_unit,
        .core = DTN_SCB->cpuid,
        .stack_bytes = dtn_stack_bytes(),
        .init_error = (uint32_t)prepared.error,
        .init_ticks = prepared.init_ticks,
        .is_npu_emulated = image->is_npu_emulated,
    };
    for (;;) {
        dtn_harness_poll(&harness);
    }
}
