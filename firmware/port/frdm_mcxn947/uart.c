/* The LPUART of LP_FLEXCOMM 4 on P1_8 and P1_9, which the board's MCU-Link connects with its virtual COM port. Its
 * clock is the 12 MHz oscillator. */
#include <stdint.h>

#define BOARD_FLEXCOMM 0x400B4000U
#define BOARD_UART_HZ UINT32_C(12000000)

/* SYSCON: write-one registers that release resets and set clock enables, and clock selection of the LP_FLEXCOMM. */
#define SYSCON_PRESETCTRLCLR ((volatile uint32_t *)0x40000140U)
#define SYSCON_AHBCLKCTRLSET ((volatile uint32_t *)0x40000220U)
#define SYSCON_FCCLKSEL4 (*(volatile uint32_t *)0x400002C0U)
#define SYSCON_FLEXCOMMCLKDIV4 (*(volatile uint32_t *)0x40000860U)

/* Pin control registers of port 1. */
#define PORT1_PCR ((volatile uint32_t *)0x40117080U)

enum { SYSCON_PORT1 = 1 << 14, SYSCON_FC4 = 1 << 15, FRO_12M = 2, PCR_ALTERNATE_2 = 2 << 8, PCR_INPUT = 1 << 12 };

static void board_uart_start(void)
{
    SYSCON_FLEXCOMMCLKDIV4 = 0;
    SYSCON_FCCLKSEL4 = FRO_12M;
    SYSCON_AHBCLKCTRLSET[0] = SYSCON_PORT1;
    SYSCON_AHBCLKCTRLSET[1] = SYSCON_FC4;
    SYSCON_PRESETCTRLCLR[0] = SYSCON_PORT1;
    SYSCON_PRESETCTRLCLR[1] = SYSCON_FC4;
    PORT1_PCR[8] = PCR_ALTERNATE_2 | PCR_INPUT;
    PORT1_PCR[9] = PCR_ALTERNATE_2 | PCR_INPUT;
}

#include "../nxp/lpuart.h"
