/**
 * @file
 * Memory that nothing may touch: regions of the memory protection unit, of which cores have eight or more.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Guards at most, and bytes of each, which start at multiples of that: QEMU's pages, of which it is slow with parts.
 */
enum { DTN_GUARDS = 7, DTN_GUARD_BYTES = 1024 };

/** Registers of the unit; an Armv7-M core has no more than the first five. */
typedef struct {
    const volatile uint32_t type;
    volatile uint32_t ctrl;
    volatile uint32_t number;
    volatile uint32_t base;
    volatile uint32_t limit; /**< Armv7-M: size and attributes */
} dtn_guard_unit_t;

#define DTN_GUARD_UNIT ((dtn_guard_unit_t *)0xE000ED90U)

#if __ARM_ARCH >= 8

/* Armv8-M lets privileged code read every region, but an address in two of them is a fault. */

static inline void dtn_guard_region(uint32_t number, const void *first, const void *last)
{
    DTN_GUARD_UNIT->number = number;
    DTN_GUARD_UNIT->base = (uint32_t)(uintptr_t)first & ~UINT32_C(31);
    DTN_GUARD_UNIT->limit = ((uint32_t)(uintptr_t)last & ~UINT32_C(31)) | 1U;
}

/** Guards DTN_GUARD_BYTES, once the guards are on. */
static inline void dtn_guard(uint32_t index, const uint8_t *guard)
{
    dtn_guard_region(index + 1, guard, guard + DTN_GUARD_BYTES - 1);
}

/** Turns on the guards, which all lie in `memory`. */
static inline void dtn_guards_on(const void *memory, size_t bytes)
{
    dtn_guard_region(0, memory, (const uint8_t *)memory + bytes - 1);
    *(volatile uint32_t *)0xE000EDC0U = 0x44; /* attribute 0: normal memory */
    DTN_GUARD_UNIT->ctrl = 5;
    __asm__ volatile("dsb 0xF\n isb 0xF" ::: "memory");
}

#else

/** Guards DTN_GUARD_BYTES, once the guards are on; region 0 is that of the stack. */
static inline void dtn_guard(uint32_t index, const uint8_t *guard)
{
    DTN_GUARD_UNIT->number = index + 1;
    DTN_GUARD_UNIT->base = (uint32_t)(uintptr_t)guard;
    /* No code, no access, 2^(9 + 1) bytes. */
    DTN_GUARD_UNIT->limit = UINT32_C(1) << 28 | UINT32_C(9) << 1 | 1U;
}

/** Turns on the guards. */
static inline void dtn_guards_on(const void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    DTN_GUARD_UNIT->ctrl = 5;
    __asm__ volatile("dsb 0xF\n isb 0xF" ::: "memory");
}

#endif
