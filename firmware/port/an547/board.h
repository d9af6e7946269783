/**
 * @file
 * The MPS3 board with Arm's image AN547: a Cortex-M55 in Secure state, so that all addresses are the Secure aliases.
 */
#ifndef DTN_BOARD_H
#define DTN_BOARD_H

#include <stdint.h>

#include "core.h"
#include "stack_limit_v8.h"

/** Rate of `dtn_port_ticks`. */
#define DTN_TICKS_HZ UINT32_C(20000000)

/** Rates of the core and its SysTick, and of the timers (timer.h). */
#define DTN_CORE_HZ UINT32_C(32000000)
#define DTN_TIMER_HZ UINT32_C(32000000)

/** The free-running counter of the FPGA's system control block. */
#define DTN_BOARD_COUNTER (*(const volatile uint32_t *)0x59302018U)

/** The first UART, of CMSDK, and its clock. */
#define DTN_BOARD_UART 0x59303000U
#define DTN_BOARD_UART_HZ UINT32_C(25000000)

/** The interrupts in use: X(number, name of the handler). 30 and 31 have no device; software pends them. */
#define DTN_BOARD_INTERRUPTS(X)                                                                                        \
    X(3, dtn_on_timer0)                                                                                                \
    X(4, dtn_on_timer1)                                                                                                \
    X(30, dtn_on_dma0)                                                                                                 \
    X(31, dtn_on_dma1)                                                                                                 \
    X(DTN_ETHOSU_INTERRUPT, dtn_on_ethosu)

/** The Ethos-U55 of the FPGA image, which QEMU does not have. */
#define DTN_ETHOSU_BASE UINT32_C(0x58102000)
#define DTN_ETHOSU_INTERRUPT 56

#endif /* DTN_BOARD_H */
