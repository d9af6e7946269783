/**
 * @file
 * NXP's FRDM-MCXN947, at the 48 MHz of its fast internal oscillator. Never run on silicon.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "cycles.h"
#include "stack_limit_v8.h"

#define DTN_TICKS_HZ UINT32_C(48000000)
#define DTN_CORE_HZ UINT32_C(48000000)

/** Ticks are cycles of the core. */
#define DTN_BOARD_COUNTER DTN_DWT_CYCCNT

/** No interrupt is used. */
#define DTN_BOARD_INTERRUPTS(X)

/** Sets the clock, and starts flash cache and cycle counter. Raise the clock here, with DTN_CORE_HZ, the voltage of the
 * core and the flash's wait states. */
void dtn_board_start(void);

#endif /* DTN_BOARD_H */
