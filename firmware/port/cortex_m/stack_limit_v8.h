/**
 * @file
 * Stack limit on an Armv8-M core, which compares the stack pointer with a register.
 */
#ifndef DTN_STACK_LIMIT_H
#define DTN_STACK_LIMIT_H

#include <stdint.h>

/** Faults when the stack grows below `limit`. */
static inline void dtn_stack_limit_set(const uint32_t *guard, const uint32_t *limit)
{
    (void)guard;
    __asm__ volatile("msr msplim, %0" ::"r"(limit));
}

/** Opens the guard for the fault handler: the core leaves the stack pointer at the limit. May change r1 and r2. */
#define DTN_STACK_LIMIT_LIFT                                                                                           \
    "mov r1, #0\n"                                                                                                     \
    "msr msplim, r1\n"

#endif /* DTN_STACK_LIMIT_H */
