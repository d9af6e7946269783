/**
 * @file
 * Sleeps until an interrupt clears a flag, with a time limit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * Sleeps while `*busy`, which an interrupt clears. Returns false if it is still set after `ticks` of the timers, or
 * immediately if interrupts are off or the caller is an interrupt: nothing could clear it.
 *
 * For one thread at a time, as there is one timer for it.
 */
bool dtn_sleep_while(const volatile bool *busy, uint32_t ticks);
