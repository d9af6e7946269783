/**
 * @file
 * ST's NUCLEO-H743ZI2, at the 64 MHz of its HSI oscillator, which it has after reset. Never run on silicon.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "cycles.h"
#include "stack_limit_v7.h"

#define DTN_TICKS_HZ UINT32_C(64000000)
#define DTN_CORE_HZ UINT32_C(64000000)

/** Ticks are cycles of the core. */
#define DTN_BOARD_COUNTER DTN_DWT_CYCCNT

/** No interrupt is used. */
#define DTN_BOARD_INTERRUPTS(X)

/** Starts caches and cycle counter. Raise the clocks here, with DTN_CORE_HZ and the wait states of the flash. */
void dtn_board_start(void);

#endif /* DTN_BOARD_H */
