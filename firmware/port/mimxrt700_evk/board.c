#include "board.h"

/* CLKCTL0: selections of clocks, with an enable bit, and dividers. */
#define MAINCLKDIV (*(volatile uint32_t *)0x40001400U)
#define CMPTBASECLKSEL (*(volatile uint32_t *)0x40001420U)
#define MAINCLKSEL (*(volatile uint32_t *)0x40001434U)
#define RAMCLKSEL (*(volatile uint32_t *)0x40001450U)
#define RAMCLKDIV (*(volatile uint32_t *)0x4000145CU)
#define SELECTED UINT32_C(4)
#define DIVIDER_UNSTABLE (UINT32_C(1) << 31)

enum { BASE_FROM_FRO1 = 1, MAIN_FROM_BASE = 0, RAM_FROM_FRO1 = 3 };

/* Control of the cache of the code bus. */
#define XCACHE1_CCR (*(volatile uint32_t *)0x40034000U)
#define CCR_ENABLE 1U
#define CCR_INVALIDATE (UINT32_C(1) << 24 | UINT32_C(1) << 26)
#define CCR_GO (UINT32_C(1) << 31)

static void divide_by_1(volatile uint32_t *divider)
{
    *divider = 0;
    while ((*divider & DIVIDER_UNSTABLE) != 0) {
    }
}

static void start_cache(void)
{
    if ((XCACHE1_CCR & CCR_ENABLE) == 0) {
        XCACHE1_CCR = CCR_INVALIDATE;
        XCACHE1_CCR |= CCR_GO;
        while ((XCACHE1_CCR & CCR_GO) != 0) {
        }
        XCACHE1_CCR = CCR_ENABLE;
        dtn_barrier();
    }
}

void dtn_board_start(void)
{
    CMPTBASECLKSEL = SELECTED | BASE_FROM_FRO1;
    MAINCLKSEL = SELECTED | MAIN_FROM_BASE;
    divide_by_1(&MAINCLKDIV);
    RAMCLKSEL = SELECTED | RAM_FROM_FRO1;
    divide_by_1(&RAMCLKDIV);
    start_cache();
    dtn_cycles_start();
}
