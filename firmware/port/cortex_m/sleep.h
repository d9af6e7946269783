/**
 * @file
 * Sleeping until an interrupt has done something, with a limit.
 */
#ifndef DTN_SLEEP_H
#define DTN_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Sleeps while `*busy`, which an interrupt clears; false when it is still set after `ticks` of the timers, and at once
 * when the caller has switched interrupts off or is in one itself: nothing might clear it.
 *
 * By one thread at a time: there is one timer for it.
 */
bool dtn_sleep_while(const volatile bool *busy, uint32_t ticks);

#endif /* DTN_SLEEP_H */
