#include "startup.h"

#include <string.h>

#include "board.h"
#include "core.h"

/* Addresses that the linker script defines; only their addresses are meaningful. */
extern uint32_t __dtn_stack_guard[], __dtn_stack_limit[], __dtn_stack_top[];
extern uint8_t __dtn_sram_load[], __dtn_sram_start[], __dtn_sram_end[];
extern uint8_t __dtn_data_load[], __dtn_data_start[], __dtn_data_end[];
extern uint8_t __dtn_bss_start[], __dtn_bss_end[];
extern uint8_t __dtn_free_start[], __dtn_free_end[];

/* Fill pattern of unused stack words. */
#define PAINT UINT32_C(0xC0DEC0DE)

typedef void (*handler_t)(void);

/* The first word is the stack, all others are functions. */
typedef union {
    const void *stack;
    handler_t handler;
} vector_t;

/* NULL on the emulated boards, whose clocks and counter always run. */
__attribute__((weak)) void dtn_board_start(void);

int main(void);
void dtn_reset(void);
void dtn_unhandled(void);
void dtn_fault_gather(uint32_t *frame);

/* Handlers of the board's interrupts: an undefined one is a fault. */
#define DTN_X(number, name) __attribute__((weak, alias("dtn_unhandled"))) void name(void);
DTN_BOARD_INTERRUPTS(DTN_X)
#undef DTN_X
__attribute__((weak, alias("dtn_unhandled"))) void dtn_on_system_tick(void);

/* Unlisted interrupts are never enabled. The linker script keeps the section and places it. */
const vector_t dtn_vectors[]
    __attribute__((section(".dtn_vectors"), used)) = {{.stack = __dtn_stack_top},
                                                      {.handler = dtn_reset},
                                                      {.handler = dtn_unhandled},        /* NMI */
                                                      {.handler = dtn_unhandled},        /* HardFault */
                                                      {.handler = dtn_unhandled},        /* MemManage */
                                                      {.handler = dtn_unhandled},        /* BusFault */
                                                      {.handler = dtn_unhandled},        /* UsageFault */
                                                      {.handler = dtn_unhandled},        /* SecureFault */
                                                      [11] = {.handler = dtn_unhandled}, /* SVCall */
                                                      [12] = {.handler = dtn_unhandled}, /* DebugMonitor */
                                                      [14] = {.handler = dtn_unhandled}, /* PendSV */
                                                      [15] = {.handler = dtn_on_system_tick},
#define DTN_X(number, name) [DTN_FIRST_INTERRUPT + (number)] = {.handler = name},
                                                      DTN_BOARD_INTERRUPTS(DTN_X)
#undef DTN_X
};

/* Fills the stack from the limit up to here: above, it is in use, for example by this function. */
static void paint_stack(void)
{
    volatile uint32_t *word = __dtn_stack_limit;
    const uint32_t *sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    while (word < sp) {
        *word = PAINT;
        word++;
    }
}

/* A separate function, so that nothing in it uses vector registers before they are enabled. */
__attribute__((noinline)) static void start(void)
{
    paint_stack();
    memcpy(__dtn_sram_start, __dtn_sram_load, (size_t)(__dtn_sram_end - __dtn_sram_start));
    memcpy(__dtn_data_start, __dtn_data_load, (size_t)(__dtn_data_end - __dtn_data_start));
    memset(__dtn_bss_start, 0, (size_t)(__dtn_bss_end - __dtn_bss_start));
    dtn_barrier();
    (void)main();
    for (;;) {
        dtn_sleep();
    }
}

void dtn_reset(void)
{
    dtn_stack_limit_set(__dtn_stack_guard, __dtn_stack_limit);
    DTN_SCB->vtor = (uint32_t)(uintptr_t)dtn_vectors;
    DTN_SCB->shcsr |= DTN_SHCSR_FAULTS;
    DTN_SCB->cpacr |= DTN_CPACR_FPU_AND_MVE;
#if defined(__ARM_FEATURE_MVE)
    DTN_SCB->ccr |= DTN_CCR_LOB;
#endif
    dtn_barrier();
    if (dtn_board_start != NULL) {
        dtn_board_start();
    }
    start();
}

/* Finds the stack with the exception's frame, opens the guard for the handler, and continues in C. */
__attribute__((naked)) void dtn_unhandled(void)
{
    __asm__ volatile("tst lr, #4\n"
                     "ite eq\n"
                     "mrseq r0, msp\n"
                     "mrsne r0, psp\n" DTN_STACK_LIMIT_LIFT "b dtn_fault_gather\n");
}

__attribute__((used)) void dtn_fault_gather(uint32_t *frame)
{
    uint32_t exception;
    __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
    dtn_fault_t fault = {
        .exception = exception,
        .cfsr = DTN_SCB->cfsr,
        .hfsr = DTN_SCB->hfsr,
        .mmfar = DTN_SCB->mmfar,
        .bfar = DTN_SCB->bfar,
        .sp = (uint32_t)(uintptr_t)frame,
    };
    /* On a full stack the core saves nothing: at the limit, or where the guard prevents the write. */
    if (frame != __dtn_stack_limit && (fault.cfsr & DTN_CFSR_STACKING) == 0) {
        fault.lr = frame[5];
        fault.pc = frame[6];
    }
    dtn_fault(&fault);
    for (;;) {
    }
}

__attribute__((weak)) void dtn_fault(const dtn_fault_t *fault)
{
    (void)fault;
    for (;;) {
    }
}

uint32_t dtn_stack_bytes(void)
{
    return (uint32_t)((uintptr_t)__dtn_stack_top - (uintptr_t)__dtn_stack_limit);
}

uint32_t dtn_stack_used(void)
{
    const uint32_t *word = __dtn_stack_limit;
    while (word < __dtn_stack_top && *word == PAINT) {
        word++;
    }
    return (uint32_t)((uintptr_t)__dtn_stack_top - (uintptr_t)word);
}

void *dtn_free_memory(size_t *bytes)
{
    *bytes = (size_t)(__dtn_free_end - __dtn_free_start);
    return __dtn_free_start;
}
