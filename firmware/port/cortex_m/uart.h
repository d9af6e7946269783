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

/** Starts the UART: clock, pins, rate, both directions. */
void dtn_uart_start(void);
