/**
 * @file
 * One-shot timers of a board, in ticks of DTN_TIMER_HZ (board.h).
 */
#pragma once

#include <stdint.h>

/** Purpose of each timer; its interrupt calls the handler `dtn_on_timer<number>`, which must stop it. */
enum { DTN_TIMER_FLASH = 0, DTN_TIMER_DEADLINE = 1 };

/** Maximum time of every board's timers. */
#define DTN_TIMER_MAX_TICKS UINT32_C(0x7FFFFFFF)

/** Starts or restarts a timer: its interrupt comes once, after 1 to DTN_TIMER_MAX_TICKS ticks. */
void dtn_timer_start(uint32_t timer, uint32_t ticks);

/** Stops a timer and clears its interrupt: the handler is not called after this. */
void dtn_timer_stop(uint32_t timer);
