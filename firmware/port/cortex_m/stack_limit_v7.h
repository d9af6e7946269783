/**
 * @file
 * Stack limit on an Armv7-M core: the guard below it is a region of the memory protection unit.
 */
#ifndef DTN_STACK_LIMIT_H
#define DTN_STACK_LIMIT_H

#include <stdint.h>

#include "core.h"

/** Memory protection unit. */
typedef struct {
    const volatile uint32_t type;
    volatile uint32_t ctrl;
    volatile uint32_t number;
    volatile uint32_t base;
    volatile uint32_t attributes;
} dtn_mpu_t;
DTN_CHECK_OFFSET(dtn_mpu_t, attributes, 0x10);

#define DTN_MPU ((dtn_mpu_t *)0xE000ED90U)

#define DTN_MPU_ENABLE UINT32_C(5) /**< memory outside the regions is unprotected */

/** No access to 512 bytes, which start at a multiple of 512. */
#define DTN_MPU_GUARD (UINT32_C(1) << 28 | UINT32_C(8) << 1 | 1U)

/** Faults when the stack grows below `limit` into `guard`. */
static inline void dtn_stack_limit_set(const uint32_t *guard, const uint32_t *limit)
{
    (void)limit;
    DTN_MPU->number = 0;
    DTN_MPU->base = (uint32_t)(uintptr_t)guard;
    DTN_MPU->attributes = DTN_MPU_GUARD;
    DTN_MPU->ctrl = DTN_MPU_ENABLE;
    __asm__ volatile("dsb\n isb\n" ::: "memory");
}

/** Opens the guard for the fault handler, which starts there: the stack may end anywhere below the limit. May change r1
 * and r2; r0 is the exception's frame. */
#define DTN_STACK_LIMIT_LIFT                                                                                           \
    "mov r1, #0\n"                                                                                                     \
    "ldr r2, =0xE000ED94\n"                                                                                            \
    "str r1, [r2]\n"                                                                                                   \
    "dsb\n"                                                                                                            \
    "isb\n"                                                                                                            \
    "ldr r1, =__dtn_stack_limit\n"                                                                                     \
    "mov sp, r1\n"

#endif /* DTN_STACK_LIMIT_H */
