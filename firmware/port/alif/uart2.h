/* UART 2, of the 16550 kind, on P1_0 (receive) and P1_1 (transmit), polled: "UARTA" of Alif's DevKits. Its clock is the
 * high-frequency oscillator. Registers and bits are those of Alif's device headers. Never run on silicon. */
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
#include "uart.h"

#define UART_HZ UINT32_C(38400000)

typedef struct {
    volatile uint32_t data; /* low half of the divisor, if LCR says so */
    volatile uint32_t ier;  /* its high half */
    volatile uint32_t fcr;
    volatile uint32_t lcr;
    volatile uint32_t mcr;
    const volatile uint32_t lsr;
    uint32_t reserved[(0xC0 - 0x18) / 4];
    volatile uint32_t dlf;
} uart_t;
DTN_CHECK_OFFSET(uart_t, lsr, 0x14);
DTN_CHECK_OFFSET(uart_t, dlf, 0xC0);

#define UART ((uart_t *)0x4901A000U)

enum { LCR_8_BITS = 3, LCR_DIVISOR = 0x80, FCR_FIFO_CLEARED = 7, LSR_RECEIVED = 1, LSR_SPACE = 0x20 };

/* Clocks of devices: all of them on, and those of the UARTs. */
#define EXPMST0_CTRL (*(volatile uint32_t *)0x4902F000U)
#define EXPMST0_FORCE (UINT32_C(3) << 30)
#define UART_CTRL (*(volatile uint32_t *)0x4902F008U)
#define UART_CTRL_ON(uart) (UINT32_C(1) << (uart))
#define UART_CTRL_FROM_PCLK(uart) (UINT32_C(1) << (8 + (uart)))

/* Pins: function, and from bit 16 the pad's control. */
#define PIN(port, pin) (((volatile uint32_t *)0x1A603000U)[8 * (port) + (pin)])
#define FUNCTION_1 1U
#define PAD_INPUT (UINT32_C(1) << 16)
#define PAD_PULL_UP (UINT32_C(1) << 19)
#define PAD_4_MA (UINT32_C(1) << 21)

void dtn_uart_start(void)
{
    EXPMST0_CTRL |= EXPMST0_FORCE;
    UART_CTRL = (UART_CTRL & ~UART_CTRL_FROM_PCLK(2)) | UART_CTRL_ON(2);
    PIN(1, 0) = FUNCTION_1 | PAD_INPUT | PAD_PULL_UP | PAD_4_MA;
    PIN(1, 1) = FUNCTION_1 | PAD_PULL_UP | PAD_4_MA;
    uint32_t divisor = (UART_HZ + DTN_UART_BAUD / 2) / DTN_UART_BAUD; /* in 1/16, of 16 samples a bit */
    UART->ier = 0;
    UART->fcr = FCR_FIFO_CLEARED;
    UART->lcr = LCR_DIVISOR | LCR_8_BITS;
    UART->data = divisor / 16 % 256;
    UART->ier = divisor / 16 / 256;
    UART->dlf = divisor % 16;
    UART->lcr = LCR_8_BITS;
}

int32_t dtn_port_getc(void)
{
    return (UART->lsr & LSR_RECEIVED) != 0 ? (int32_t)(UART->data & 0xFFU) : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uint32_t start = dtn_port_ticks();
    while ((UART->lsr & LSR_SPACE) == 0) {
        if (dtn_port_ticks() - start > DTN_UART_SEND_TICKS) {
            return false;
        }
    }
    UART->data = byte;
    return true;
}
