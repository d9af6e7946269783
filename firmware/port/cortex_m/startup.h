/**
 * @file
 * Services of the start-up code for an application on a Cortex-M board.
 *
 * It sets the vector table, the stack's limit and the coprocessors, and calls the board's `dtn_board_start`, if there
 * is one. Then it paints the stack, fills `.data`, `.dtn_sram` and `.bss`, and calls `main`. When `main` returns, the
 * core sleeps forever.
 *
 * `dtn_board_start` sets clocks, wait states, ECC, protection regions and caches, and starts the counter. It must not
 * use variables in `.data`, `.dtn_sram` or `.bss`, which are filled later. Devices such as the UART start after it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Data of a fault. */
typedef struct {
    uint32_t exception; /**< 2 NMI, 3 HardFault, 4 MemManage, 5 BusFault, 6 UsageFault, 7 SecureFault, others unused */
    uint32_t cfsr;
    uint32_t hfsr;
    uint32_t mmfar; /**< address of a MemManage fault, if its bit in cfsr marks it valid */
    uint32_t bfar;  /**< address of a BusFault, if its bit in cfsr marks it valid */
    uint32_t sp;    /**< stack pointer after the exception saved registers */
    uint32_t pc;    /**< faulting instruction; 0 if the stack was too full to save it */
    uint32_t lr;    /**< link register; 0 if the stack was too full to save it */
} dtn_fault_t;

/**
 * Called for every fault and every exception without a handler; must not return. The stack has 512 bytes left, even
 * after an overflow. The weak default stops the core in a loop, for a debugger.
 */
void dtn_fault(const dtn_fault_t *fault);

/** Size of the stack; set by the linker script's `__dtn_stack_bytes`. */
uint32_t dtn_stack_bytes(void);

/** Maximum bytes of the stack in use since start-up: those that are no longer painted. */
uint32_t dtn_stack_used(void);

/** Free memory of the image, 16-byte aligned, and its size. */
void *dtn_free_memory(size_t *bytes);
