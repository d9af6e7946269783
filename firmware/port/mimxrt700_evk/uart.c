/* The LPUART of LP_FLEXCOMM 0 on PIO0_31 and PIO1_0, which the board's MCU-Link connects with its virtual COM port.
 * Its clock is an eighth of the core's. */
#include <stdint.h>

#define BOARD_FLEXCOMM 0x40110000U
#define BOARD_UART_HZ (DTN_CORE_HZ / 8)

/* RSTCTL0: write-one registers that release resets, and states. */
#define PRSTCTL ((const volatile uint32_t *)0x40000010U)
#define PRSTCTL_CLR ((volatile uint32_t *)0x40000070U)

/* CLKCTL0: write-one registers that set clock enables; source, divider and selection of the LP_FLEXCOMM's clock. */
#define PSCCTL_SET ((volatile uint32_t *)0x40001040U)
#define FCCLK0SEL (*(volatile uint32_t *)0x40001800U)
#define FCCLK0DIV (*(volatile uint32_t *)0x40001804U)
#define FC0FCLKSEL (*(volatile uint32_t *)0x40001808U)
#define SELECTED UINT32_C(4)
#define FROM_BASE 0U
#define FROM_FCCLK0 0U
#define DIVIDER_RESET (UINT32_C(1) << 29)
#define DIVIDER_UNSTABLE (UINT32_C(1) << 31)

#define IOPCTL0_BIT (UINT32_C(1) << 6)
#define IOPCTL0_CLOCK_BIT (UINT32_C(1) << 3)
#define FLEXCOMM0_BIT (UINT32_C(1) << 30)

/* IOPCTL0, 32 pins a port. */
#define PIO(port, pin) (((volatile uint32_t *)0x40004000U)[32 * (port) + (pin)])

enum { PIO_FUNCTION_1 = 1, PIO_INPUT = 1 << 6 };

static void release(uint32_t number, uint32_t bit)
{
    PRSTCTL_CLR[number] = bit;
    while ((PRSTCTL[number] & bit) != 0) {
    }
}

static void board_uart_start(void)
{
    FCCLK0SEL = SELECTED | FROM_BASE;
    FCCLK0DIV |= DIVIDER_RESET;
    FCCLK0DIV = 8 - 1;
    while ((FCCLK0DIV & DIVIDER_UNSTABLE) != 0) {
    }
    FC0FCLKSEL = SELECTED | FROM_FCCLK0;
    PSCCTL_SET[5] = IOPCTL0_CLOCK_BIT;
    PSCCTL_SET[1] = FLEXCOMM0_BIT;
    release(0, IOPCTL0_BIT);
    release(2, FLEXCOMM0_BIT);
    PIO(0, 31) = PIO_FUNCTION_1 | PIO_INPUT;
    PIO(1, 0) = PIO_FUNCTION_1;
}

#include "../nxp/lpuart.h"
