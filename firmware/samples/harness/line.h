/**
 * @file
 * The serial line of the sample, in addition to `dtn_port_getc` and `dtn_port_putc` of deuteron/harness.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Starts the line with 115,200 bits per second; returns false on failure. */
bool line_start(void);

/** Rate of the core in Hz. */
uint32_t line_core_hz(void);

/** Rate of `dtn_port_ticks` in Hz. */
uint32_t line_ticks_hz(void);
