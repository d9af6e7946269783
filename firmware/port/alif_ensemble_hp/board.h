/**
 * @file
 * The HP core of Alif's Ensemble E7 and E8, at the 400 MHz that the secure enclave sets. Never run on silicon.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "cycles.h"
#include "stack_limit_v8.h"

#define DTN_TICKS_HZ UINT32_C(400000000)
#define DTN_CORE_HZ UINT32_C(400000000)

/** Ticks are cycles of the core, which may not be counted while it sleeps. */
#define DTN_COUNTER_STOPS_IN_SLEEP
#define DTN_BOARD_COUNTER DTN_DWT_CYCCNT

/** Core cycles of a tick of the timer (systick_timer.h), and the rate of these ticks. */
#define DTN_TIMER_CYCLES 16
#define DTN_TIMER_HZ (DTN_CORE_HZ / DTN_TIMER_CYCLES)

/** The interrupts in use: X(number, name of the handler). */
#define DTN_BOARD_INTERRUPTS(X) X(DTN_ETHOSU_INTERRUPT, dtn_on_ethosu)

/** The core's own Ethos-U55 with 256 MACs. */
#define DTN_ETHOSU_BASE UINT32_C(0x400E1000)
#define DTN_ETHOSU_INTERRUPT 55

/** Starts caches and cycle counter, and describes the devices' addresses to the memory protection unit. */
void dtn_board_start(void);

#endif /* DTN_BOARD_H */
