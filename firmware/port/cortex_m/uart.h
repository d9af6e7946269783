/**
 * @file
 * The serial line of a board, for images with the harness, which takes `dtn_port_getc` and `dtn_port_putc` from the
 * same file (deuteron/harness.h).
 */
#pragma once

/** Baud rate of every board's line, unless its page in `docs/guides/boards.md` names another. */
#ifndef DTN_UART_BAUD
#define DTN_UART_BAUD 115200
#endif

/** Longest wait of `dtn_port_putc` for space, one second: a host that reads nothing must not stop the board. */
#ifndef DTN_UART_SEND_TICKS
#define DTN_UART_SEND_TICKS DTN_TICKS_HZ
#endif

/** Starts the UART: clock, pins, rate, both directions. */
void dtn_uart_start(void);
