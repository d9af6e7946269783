/**
 * @file
 * The MPS2+ board with Arm's image AN505: a Cortex-M33 in Secure state, so that all addresses are the Secure aliases.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "stack_limit_v8.h"

/** Rate of `dtn_port_ticks`. */
#define DTN_TICKS_HZ UINT32_C(20000000)

/** Rates of the core and its SysTick, and of the timers (timer.h). */
#define DTN_CORE_HZ UINT32_C(20000000)
#define DTN_TIMER_HZ UINT32_C(20000000)

/** The free-running counter of the FPGA's system control block. */
#define DTN_BOARD_COUNTER (*(const volatile uint32_t *)0x50302018U)

/** The two CMSDK timers. */
#define DTN_BOARD_CMSDK_TIMERS {0x50000000U, 0x50001000U}
#define DTN_BOARD_CMSDK_INTERRUPTS {3, 4}

/** The first UART, of CMSDK, and its clock. */
#define DTN_BOARD_UART 0x50200000U
#define DTN_BOARD_UART_HZ DTN_CORE_HZ

/** The interrupts in use: X(number, name of the handler). */
#define DTN_BOARD_INTERRUPTS(X)                                                                                        \
    X(3, dtn_on_timer0)                                                                                                \
    X(4, dtn_on_timer1)                                                                                                \
    X(58, dtn_on_dma0)                                                                                                 \
    X(61, dtn_on_dma1)

#endif /* DTN_BOARD_H */
