/**
 * @file
 * ST's NUCLEO-U575ZI-Q, at the 4 MHz of its MSIS oscillator, which it has after reset. Never run on silicon.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "cycles.h"
#include "stack_limit_v8.h"

#define DTN_TICKS_HZ UINT32_C(4000000)
#define DTN_CORE_HZ UINT32_C(4000000)

/** Ticks are cycles of the core. */
#define DTN_BOARD_COUNTER DTN_DWT_CYCCNT

/** No interrupt is used. */
#define DTN_BOARD_INTERRUPTS(X)

/** Starts the cycle counter. Raise the clocks here, with DTN_CORE_HZ, the voltage range and the flash's wait states. */
void dtn_board_start(void);

#endif /* DTN_BOARD_H */
