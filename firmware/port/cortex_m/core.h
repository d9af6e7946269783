/**
 * @file
 * Registers and instructions of Armv7-M and Armv8-M cores that the boards under `port/` use; names are the manuals'.
 */
#ifndef DTN_CORE_H
#define DTN_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Fails to compile if a register does not have the manual's offset. */
#define DTN_CHECK_OFFSET(type, member, at) typedef char type##_##member##_at[offsetof(type, member) == (at) ? 1 : -1]

/** System control block. */
typedef struct {
    const volatile uint32_t cpuid;
    volatile uint32_t icsr;
    volatile uint32_t vtor;
    volatile uint32_t aircr;
    volatile uint32_t scr;
    volatile uint32_t ccr;
    volatile uint32_t shpr[3];
    volatile uint32_t shcsr;
    volatile uint32_t cfsr;
    volatile uint32_t hfsr;
    volatile uint32_t dfsr;
    volatile uint32_t mmfar;
    volatile uint32_t bfar;
    volatile uint32_t afsr;
    const volatile uint32_t id[18];
    volatile uint32_t cpacr;
} dtn_scb_t;
DTN_CHECK_OFFSET(dtn_scb_t, shcsr, 0x24);
DTN_CHECK_OFFSET(dtn_scb_t, bfar, 0x38);
DTN_CHECK_OFFSET(dtn_scb_t, cpacr, 0x88);

/** Interrupt controller, each register array a bit per interrupt. */
typedef struct {
    volatile uint32_t enable[16];
    uint32_t reserved0[16];
    volatile uint32_t disable[16];
    uint32_t reserved1[16];
    volatile uint32_t pend[16];
    uint32_t reserved2[16];
    volatile uint32_t unpend[16];
} dtn_nvic_t;
DTN_CHECK_OFFSET(dtn_nvic_t, disable, 0x80);
DTN_CHECK_OFFSET(dtn_nvic_t, pend, 0x100);
DTN_CHECK_OFFSET(dtn_nvic_t, unpend, 0x180);

/** System timer, which counts 24 bits down to 0. */
typedef struct {
    volatile uint32_t control;
    volatile uint32_t reload;
    volatile uint32_t value;
} dtn_systick_t;

#define DTN_SYSTICK ((dtn_systick_t *)0xE000E010U)
#define DTN_SCB ((dtn_scb_t *)0xE000ED00U)
#define DTN_NVIC ((dtn_nvic_t *)0xE000E100U)

#define DTN_CCR_LOB (UINT32_C(1) << 19)             /**< low-overhead loops of Armv8.1-M */
#define DTN_SHCSR_FAULTS (UINT32_C(0xF) << 16)      /**< MemManage, Bus, Usage and Secure have their own handlers */
#define DTN_CFSR_STACKING (UINT32_C(0x1010))        /**< an exception could not save registers */
#define DTN_CPACR_FPU_AND_MVE (UINT32_C(0xF) << 20) /**< full access to coprocessors 10 and 11 */

/** Number of the first interrupt in the vector table. */
#define DTN_FIRST_INTERRUPT 16

static inline void dtn_barrier(void)
{
    __asm__ volatile("dsb 0xF\n isb 0xF" ::: "memory");
}

/** Sleeps until an interrupt is pending, even one that `dtn_interrupts_off` masks. */
static inline void dtn_sleep(void)
{
    __asm__ volatile("dsb 0xF\n wfi" ::: "memory");
}

/** True if interrupts may stay pending: all or some are masked, or the core handles an exception. */
static inline bool dtn_interrupts_are_off(void)
{
    uint32_t primask;
    uint32_t faultmask;
    uint32_t basepri;
    uint32_t ipsr;
    __asm__ volatile("mrs %0, primask\n mrs %1, faultmask\n mrs %2, basepri\n mrs %3, ipsr"
                     : "=r"(primask), "=r"(faultmask), "=r"(basepri), "=r"(ipsr)::"memory");
    return (primask | faultmask | basepri | ipsr) != 0;
}

/** Masks interrupts; returns the state for `dtn_interrupts_restore`. */
static inline uint32_t dtn_interrupts_off(void)
{
    uint32_t state;
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(state)::"memory");
    return state;
}

static inline void dtn_interrupts_restore(uint32_t state)
{
    __asm__ volatile("msr primask, %0\n isb 0xF" ::"r"(state) : "memory");
}

static inline void dtn_interrupt_enable(uint32_t number)
{
    DTN_NVIC->enable[number / 32] = UINT32_C(1) << number % 32;
}

/** Makes an interrupt pending, as its device would. */
static inline void dtn_interrupt_pend(uint32_t number)
{
    DTN_NVIC->pend[number / 32] = UINT32_C(1) << number % 32;
}

/** Clears a pending interrupt, whose device must no longer request it. */
static inline void dtn_interrupt_unpend(uint32_t number)
{
    __asm__ volatile("dsb 0xF" ::: "memory");
    DTN_NVIC->unpend[number / 32] = UINT32_C(1) << number % 32;
}

#endif /* DTN_CORE_H */
