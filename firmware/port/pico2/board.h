/**
 * @file
 * Raspberry Pi Pico 2, at 150 MHz from its crystal of 12 MHz. Never run on silicon.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "cycles.h"
#include "stack_limit_v8.h"

#define DTN_TICKS_HZ UINT32_C(150000000)
#define DTN_CORE_HZ UINT32_C(150000000)

/** Ticks are cycles of the core. */
#define DTN_BOARD_COUNTER DTN_DWT_CYCCNT

/** No interrupt is used. */
#define DTN_BOARD_INTERRUPTS(X)

/** Sets the clocks of core and UART, and starts the cycle counter. */
void dtn_board_start(void);

#endif /* DTN_BOARD_H */
