/* The application of an image with the harness: prepares the program, then serves the line. */
#include "board.h"
#include "core.h"
#include "deuteron/errors.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
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

/* Unit of the ticks: an emulator that runs without instruction counts, or with other ones, shows it in a loop. */
static uint32_t tick_unit(const dtn_harness_image_t *image)
{
    uint32_t left = DTN_LOOP_INSTRUCTIONS / 2;
    uint32_t start = dtn_port_ticks();
    __asm__ volatile("1:\n"
                     "subs %[left], %[left], #1\n"
                     "bne 1b\n"
                     : [left] "+l"(left)
                     :
                     : "cc");
    uint32_t ticks = dtn_port_ticks() - start;
    uint32_t tolerance = image->loop_ticks / 16; /* for the calls around the loop */
    bool is_right = ticks - image->loop_ticks + tolerance <= 2 * tolerance;
    return image->loop_ticks == 0 || is_right ? image->tick_unit : DTN_HARNESS_NO_UNIT;
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
        .tick_unit = tick_unit(image),
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
