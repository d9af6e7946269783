#include "board.h"

/* A block of the boot ROM's format within the first 4 KiB of the flash: a Secure Arm image for the RP2350, which starts
 * at the vector table at the beginning of the flash. */
const uint32_t board_boot_block[] __attribute__((section(".dtn_boot_block"), used)) = {
    UINT32_C(0xFFFFDED3), /* start */
    UINT32_C(0x10210142), /* item of one word: type of the image */
    UINT32_C(0x000001FF), /* last item: the items have one word */
    0,                    /* the next block is this one */
    UINT32_C(0xAB123579), /* end */
};

/* Crystal oscillator. */
#define XOSC_CTRL (*(volatile uint32_t *)0x40048000U)
#define XOSC_STATUS (*(const volatile uint32_t *)0x40048004U)
#define XOSC_STARTUP (*(volatile uint32_t *)0x4004800CU)
#define XOSC_ENABLE_1_TO_15_MHZ (UINT32_C(0xFAB) << 12 | UINT32_C(0xAA0))
#define XOSC_STARTUP_1_MS 47U /* in 256 periods */
#define XOSC_STABLE (UINT32_C(1) << 31)

/* Controls of the clocks, and the sources that they run from, a bit each. */
#define CLK_REF_CTRL (*(volatile uint32_t *)0x40010030U)
#define CLK_REF_SELECTED (*(const volatile uint32_t *)0x40010038U)
#define CLK_SYS_CTRL (*(volatile uint32_t *)0x4001003CU)
#define CLK_SYS_DIV (*(volatile uint32_t *)0x40010040U)
#define CLK_SYS_SELECTED (*(const volatile uint32_t *)0x40010044U)
#define CLK_PERI_CTRL (*(volatile uint32_t *)0x40010048U)
#define CLK_REF_FROM_XOSC 2U
#define CLK_SYS_FROM_REF 0U
#define CLK_SYS_FROM_AUXILIARY 1U /* with auxiliary source 0, the PLL of the system */
#define CLK_DIV_1 (UINT32_C(1) << 16)
#define CLK_PERI_FROM_SYS (UINT32_C(1) << 11)

/* PLL of the system: 12 MHz x 125 / 5 / 2. */
#define PLL_CS (*(volatile uint32_t *)0x40050000U)
#define PLL_PWR (*(volatile uint32_t *)0x40050004U)
#define PLL_FBDIV (*(volatile uint32_t *)0x40050008U)
#define PLL_PRIM (*(volatile uint32_t *)0x4005000CU)
#define PLL_LOCKED (UINT32_C(1) << 31)
#define PLL_OFF 1U
#define PLL_VCO_OFF (UINT32_C(1) << 5)
#define PLL_DIVIDERS_OFF (UINT32_C(1) << 3)

#define RESETS (*(volatile uint32_t *)0x40020000U)
#define RESETS_DONE (*(const volatile uint32_t *)0x40020008U)
#define RESET_PLL_SYS (UINT32_C(1) << 14)

static void start_pll(void)
{
    RESETS |= RESET_PLL_SYS;
    RESETS &= ~RESET_PLL_SYS;
    while ((RESETS_DONE & RESET_PLL_SYS) == 0) {
    }
    PLL_CS = 1;
    PLL_FBDIV = 125;
    PLL_PWR &= ~(PLL_OFF | PLL_VCO_OFF);
    while ((PLL_CS & PLL_LOCKED) == 0) {
    }
    PLL_PRIM = UINT32_C(5) << 16 | UINT32_C(2) << 12;
    PLL_PWR &= ~PLL_DIVIDERS_OFF;
}

static void start_clocks(void)
{
    XOSC_STARTUP = XOSC_STARTUP_1_MS;
    XOSC_CTRL = XOSC_ENABLE_1_TO_15_MHZ;
    while ((XOSC_STATUS & XOSC_STABLE) == 0) {
    }
    CLK_REF_CTRL = CLK_REF_FROM_XOSC;
    while (CLK_REF_SELECTED != UINT32_C(1) << CLK_REF_FROM_XOSC) {
    }
    CLK_SYS_CTRL &= ~1U; /* away from the auxiliary source, before that changes */
    while (CLK_SYS_SELECTED != UINT32_C(1) << CLK_SYS_FROM_REF) {
    }
    start_pll();
    CLK_SYS_DIV = CLK_DIV_1;
    CLK_SYS_CTRL = CLK_SYS_FROM_REF;
    CLK_SYS_CTRL = CLK_SYS_FROM_AUXILIARY;
    while (CLK_SYS_SELECTED != UINT32_C(1) << CLK_SYS_FROM_AUXILIARY) {
    }
    CLK_PERI_CTRL = CLK_PERI_FROM_SYS;
}

void dtn_board_start(void)
{
    start_clocks();
    dtn_cycles_start();
}
