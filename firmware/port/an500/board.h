/**
 * @file
 * The MPS2+ board with Arm's image AN500: a Cortex-M7, which has no Secure state.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "stack_limit_v7.h"

/** Rate of `dtn_port_ticks`. */
#define DTN_TICKS_HZ UINT32_C(25000000)

/** Rates of the core and its SysTick, and of the timers (timer.h). */
#define DTN_CORE_HZ UINT32_C(25000000)
#define DTN_TIMER_HZ UINT32_C(25000000)

/** The free-running counter of the FPGA's system control block. */
#define DTN_BOARD_COUNTER (*(const volatile uint32_t *)0x40028018U)

/** The two CMSDK timers. */
#define DTN_BOARD_CMSDK_TIMERS {0x40000000U, 0x40001000U}
#define DTN_BOARD_CMSDK_INTERRUPTS {8, 9}

/** The first UART, of CMSDK, and its clock. */
#define DTN_BOARD_UART 0x40004000U
#define DTN_BOARD_UART_HZ DTN_CORE_HZ

/** The interrupts in use: X(number, name of the handler). 30 and 31 have no device; software pends them. */
#define DTN_BOARD_INTERRUPTS(X)                                                                                        \
    X(8, dtn_on_timer0)                                                                                                \
    X(9, dtn_on_timer1)                                                                                                \
    X(30, dtn_on_dma0)                                                                                                 \
    X(31, dtn_on_dma1)

#endif /* DTN_BOARD_H */
