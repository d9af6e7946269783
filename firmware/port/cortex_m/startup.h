/**
 * @file
 * What the start-up code offers to an application on a Cortex-M board.
 *
 * It sets the vector table, the stack's limit and the coprocessors, paints the stack, fills `.data`, `.dtn_sram` and
 * `.bss`, and calls `main`. When that returns, the core sleeps for good.
 */
#ifndef DTN_STARTUP_H
#define DTN_STARTUP_H

#include <stddef.h>
#include <stdint.h>

/** What is known about a fault. */
typedef struct {
    uint32_t exception; /**< 2 NMI, 3 HardFault, 4 MemManage, 5 BusFault, 6 UsageFault, 7 SecureFault, others unused */
    uint32_t cfsr;
    uint32_t hfsr;
    uint32_t mmfar; /**< address of a MemManage fault, when its bit in cfsr says that it is valid */
    uint32_t bfar;  /**< address of a BusFault, likewise */
    uint32_t sp;    /**< where the exception saved registers */
    uint32_t pc;    /**< of the instruction at fault; 0 when the stack had no room to save it */
    uint32_t lr;    /**< likewise */
} dtn_fault_t;

/**
 * Called for every fault and every exception without a handler; must not return. The stack has 512 bytes left,
 * even when it overflowed. The weak default stops the core in a loop, for a debugger to find.
 */
void dtn_fault(const dtn_fault_t *fault);

/** Bytes that the stack may take; the linker script's `__dtn_stack_bytes` sets them. */
uint32_t dtn_stack_bytes(void);

/** Most bytes of the stack in use since start-up: what is no longer painted. */
uint32_t dtn_stack_used(void);

/** Memory that the image leaves free, 16-byte aligned, and its size. */
void *dtn_free_memory(size_t *bytes);

#endif /* DTN_STARTUP_H */
