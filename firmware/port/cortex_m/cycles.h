/**
 * @file
 * The cycle counter of Armv7-M and Armv8-M cores (DWT), as DTN_BOARD_COUNTER of a board whose ticks are core cycles.
 */
#ifndef DTN_CYCLES_H
#define DTN_CYCLES_H

#include <stdint.h>

#define DTN_DEMCR (*(volatile uint32_t *)0xE000EDFCU)
#define DTN_DWT_CTRL (*(volatile uint32_t *)0xE0001000U)
#define DTN_DWT_CYCCNT (*(const volatile uint32_t *)0xE0001004U)
#define DTN_DWT_LAR (*(volatile uint32_t *)0xE0001FB0U)

/** Starts the counter. */
static inline void dtn_cycles_start(void)
{
    DTN_DEMCR |= UINT32_C(1) << 24;     /* TRCENA */
    DTN_DWT_LAR = UINT32_C(0xC5ACCE55); /* unlocks the registers of a Cortex-M7; others ignore it */
    DTN_DWT_CTRL |= 1U;
}

#endif /* DTN_CYCLES_H */
