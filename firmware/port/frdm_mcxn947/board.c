#include "board.h"

/* SYSCON: write-one-to-set clock enables, divider of the core, flash cache, ECC of the RAM. */
#define SYSCON_AHBCLKCTRLSET2 (*(volatile uint32_t *)0x40000228U)
#define SYSCON_AHBCLKDIV (*(volatile uint32_t *)0x40000380U)
#define SYSCON_LPCAC_CTRL (*(volatile uint32_t *)0x40000824U)
#define SYSCON_ECC_ENABLE_CTRL (*(volatile uint32_t *)0x40000E44U)

/* Flash controller, whose four lowest bits are wait states. */
#define FMU_FCTRL (*(volatile uint32_t *)0x40043008U)
#define FLASH_WAIT_STATES 1U

/* System clock generator. */
typedef struct {
    uint32_t reserved0[4];
    const volatile uint32_t csr;
    volatile uint32_t rccr;
    uint32_t reserved1[(0x200 - 0x18) / 4];
    volatile uint32_t sirccsr;
    uint32_t reserved2[(0x300 - 0x204) / 4];
    volatile uint32_t firccsr;
    uint32_t reserved3;
    volatile uint32_t firccfg;
} scg_t;
DTN_CHECK_OFFSET(scg_t, csr, 0x10);
DTN_CHECK_OFFSET(scg_t, sirccsr, 0x200);
DTN_CHECK_OFFSET(scg_t, firccsr, 0x300);
DTN_CHECK_OFFSET(scg_t, firccfg, 0x308);

#define SCG ((scg_t *)0x40044000U)

#define SOURCE (UINT32_C(15) << 24)
#define SOURCE_SIRC (UINT32_C(2) << 24) /* 12 MHz */
#define SOURCE_FIRC (UINT32_C(3) << 24) /* 48 or 144 MHz */
#define SIRC_TO_DEVICES (UINT32_C(1) << 5)
#define FIRC_ENABLE 1U
#define FIRC_TO_DEVICES (UINT32_C(1) << 4)
#define LOCKED (UINT32_C(1) << 23)
#define VALID (UINT32_C(1) << 24)

static void clock_from(uint32_t source)
{
    SCG->rccr = (SCG->rccr & ~SOURCE) | source;
    while ((SCG->csr & SOURCE) != source) {
    }
}

/* The boot ROM may leave another rate: the slow oscillator clocks the core while the fast one starts with 48 MHz. */
static void start_clock(void)
{
    SYSCON_AHBCLKCTRLSET2 = UINT32_C(1) << 26; /* SCG */
    SCG->sirccsr &= ~LOCKED;
    SCG->sirccsr |= SIRC_TO_DEVICES; /* the UART */
    clock_from(SOURCE_SIRC);
    FMU_FCTRL = (FMU_FCTRL & ~UINT32_C(15)) | FLASH_WAIT_STATES;
    SCG->firccfg = 0; /* 48 MHz */
    SCG->firccsr &= ~LOCKED;
    SCG->firccsr |= FIRC_ENABLE | FIRC_TO_DEVICES;
    while ((SCG->firccsr & VALID) == 0) {
    }
    SYSCON_AHBCLKDIV = 0;
    clock_from(SOURCE_FIRC);
}

void dtn_board_start(void)
{
    SYSCON_ECC_ENABLE_CTRL = 0;
    start_clock();
    SYSCON_LPCAC_CTRL &= ~1U; /* the flash cache is on */
    dtn_cycles_start();
}
