/**
 * @file
 * The core of a board, for its port on a host: in the place of port/cortex_m/core.h and the board's board.h, whose
 * guards it sets. The compiler includes it before a port's file.
 */
#pragma once

#define DTN_CORE_H
#define DTN_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#define DTN_TIMER_HZ UINT32_C(20000000)

/** An Ethos-U that nothing reaches. */
#define DTN_ETHOSU_BASE ((uintptr_t)0x58102000)
#define DTN_ETHOSU_INTERRUPT 56

/** True if interrupts are kept pending. */
bool dtn_interrupts_are_off(void);

/** Keeps them pending. The last moment before is when another thread may run. */
uint32_t dtn_interrupts_off(void);

/** Lets them come again. */
void dtn_interrupts_restore(uint32_t state);

/** The board's counter, which grows with each look. */
uint32_t dtn_test_counter(void);
#define DTN_BOARD_COUNTER dtn_test_counter()

/** Lets one come at all. */
void dtn_interrupt_enable(uint32_t number);
