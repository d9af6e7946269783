/**
 * @file
 * The caches of a Cortex-M7, M55 or M85, for boards that define DTN_BOARD_CACHES as 1. Their lines have 32 bytes. The
 * registers and the order of operations are those of the Armv7-M and Armv8-M manuals.
 */
#ifndef DTN_CACHE_H
#define DTN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "core.h"

#define DTN_CACHE_LINE UINT32_C(32)
#define DTN_CCR_CACHES (UINT32_C(3) << 16) /**< data cache, instruction cache */

#define DTN_CCSIDR (*(const volatile uint32_t *)0xE000ED80U)
#define DTN_CSSELR (*(volatile uint32_t *)0xE000ED84U)
#define DTN_ICIALLU (*(volatile uint32_t *)0xE000EF50U)
#define DTN_DCIMVAC (*(volatile uint32_t *)0xE000EF5CU)
#define DTN_DCISW (*(volatile uint32_t *)0xE000EF60U)
#define DTN_DCCMVAC (*(volatile uint32_t *)0xE000EF68U)

/** Invalidates both caches, which are off after reset, and turns them on. */
static inline void dtn_cache_start(void)
{
    DTN_CSSELR = 0; /* the data cache */
    dtn_barrier();
    uint32_t size = DTN_CCSIDR;
    uint32_t last_set = size >> 13 & 0x7FFFU;
    uint32_t last_way = size >> 3 & 0x3FFU;
    uint32_t shift = 32; /* the way is in the uppermost bits, as many as the last one has */
    for (uint32_t ways = last_way; ways != 0; ways >>= 1) {
        shift--;
    }
    for (uint32_t set = 0; set <= last_set; set++) {
        for (uint32_t way = 0; way <= last_way; way++) {
            DTN_DCISW = (last_way == 0 ? 0 : way << shift) | set * DTN_CACHE_LINE;
        }
    }
    DTN_ICIALLU = 0;
    dtn_barrier();
    DTN_SCB->ccr |= DTN_CCR_CACHES;
    dtn_barrier();
}

/** Writes an address of each line with one of the bytes to a register. */
static inline void dtn_cache_by_address(volatile uint32_t *operation, uintptr_t data, size_t bytes)
{
    dtn_barrier();
    for (uintptr_t line = data & ~(uintptr_t)(DTN_CACHE_LINE - 1); line < data + bytes; line += DTN_CACHE_LINE) {
        *operation = (uint32_t)line;
    }
    dtn_barrier();
}

static inline void dtn_cache_clean(const void *data, size_t bytes)
{
    dtn_cache_by_address(&DTN_DCCMVAC, (uintptr_t)data, bytes);
}

static inline void dtn_cache_invalidate(void *data, size_t bytes)
{
    dtn_cache_by_address(&DTN_DCIMVAC, (uintptr_t)data, bytes);
}

#endif /* DTN_CACHE_H */
