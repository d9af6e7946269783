/**
 * @file
 * Stands in for the core's header, so that what drives a board's devices runs on the machine of the tests.
 */
#ifndef DTN_CORE_H
#define DTN_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTN_CHECK_OFFSET(type, member, at) typedef char type##_##member##_at[offsetof(type, member) == (at) ? 1 : -1]

bool dtn_interrupts_are_off(void);
uint32_t dtn_interrupts_off(void);
void dtn_interrupts_restore(uint32_t state);
void dtn_interrupt_enable(uint32_t number);
void dtn_interrupt_pend(uint32_t number);
void dtn_interrupt_unpend(uint32_t number);
void dtn_barrier(void);
void dtn_sleep(void);

#endif /* DTN_CORE_H */
