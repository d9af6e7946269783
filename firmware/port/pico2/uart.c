/* UART0, a PL011, on GP0 (transmit) and GP1 (receive), polled. Registers and bits are those of the RP2350's headers. */
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
#include "pins.h"
#include "uart.h"

typedef struct {
    volatile uint32_t dr;
    volatile uint32_t rsr;
    uint32_t reserved0[4];
    const volatile uint32_t fr;
    uint32_t reserved1[2];
    volatile uint32_t ibrd;
    volatile uint32_t fbrd;
    volatile uint32_t lcr_h;
    volatile uint32_t cr;
} pl011_t;
DTN_CHECK_OFFSET(pl011_t, fr, 0x18);
DTN_CHECK_OFFSET(pl011_t, ibrd, 0x24);
DTN_CHECK_OFFSET(pl011_t, cr, 0x30);

#define UART ((pl011_t *)0x40070000U)

enum { FR_RXFE = 1 << 4, FR_TXFF = 1 << 5, LCR_8_BITS_FIFO = 7 << 4, CR_ON = 1 | 3 << 8 };

#define RESET_UART (UINT32_C(1) << 26)

enum { TX = 0, RX = 1 };

void dtn_uart_start(void)
{
    pins_release(RESET_UART | RESET_PINS);
    pins_use(TX, FUNCTION_UART);
    pins_use(RX, FUNCTION_UART);
    uint32_t divisor = (4 * DTN_CORE_HZ + DTN_UART_BAUD / 2) / DTN_UART_BAUD; /* in 1/64, of 16 samples a bit */
    UART->ibrd = divisor / 64;
    UART->fbrd = divisor % 64;
    UART->lcr_h = LCR_8_BITS_FIFO;
    UART->cr = CR_ON;
}

int32_t dtn_port_getc(void)
{
    return (UART->fr & FR_RXFE) == 0 ? (int32_t)(UART->dr & 0xFFU) : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uint32_t start = dtn_port_ticks();
    while ((UART->fr & FR_TXFF) != 0) {
        if (dtn_port_ticks() - start > DTN_UART_SEND_TICKS) {
            return false;
        }
    }
    UART->dr = byte;
    return true;
}
