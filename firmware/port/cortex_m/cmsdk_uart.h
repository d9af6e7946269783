/**
 * @file
 * The UART of Arm's CMSDK, polled. A board's `uart.c` includes this file; its `board.h` names the address and the
 * clock.
 */
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"

/* Only emulated boards have this UART, and their time passes faster than the host's. */
#define DTN_UART_SEND_TICKS (10 * DTN_TICKS_HZ)

#include "uart.h"

/* Registers, by the names of Arm's manual. */
typedef struct {
    volatile uint32_t data;
    volatile uint32_t state;
    volatile uint32_t control;
    volatile uint32_t interrupt;
    volatile uint32_t baud_divider;
} cmsdk_uart_t;
DTN_CHECK_OFFSET(cmsdk_uart_t, baud_divider, 0x10);

#define UART ((cmsdk_uart_t *)DTN_BOARD_UART)

enum { STATE_SENDING = 1, STATE_RECEIVED = 2, CONTROL_BOTH = 3 };

void dtn_uart_start(void)
{
    UART->baud_divider = DTN_BOARD_UART_HZ / DTN_UART_BAUD;
    UART->control = CONTROL_BOTH;
}

int32_t dtn_port_getc(void)
{
    return (UART->state & STATE_RECEIVED) != 0 ? (int32_t)(UART->data & 0xFFU) : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uint32_t start = dtn_port_ticks();
    while ((UART->state & STATE_SENDING) != 0) {
        if (dtn_port_ticks() - start > DTN_UART_SEND_TICKS) {
            return false;
        }
    }
    UART->data = byte;
    return true;
}
