/**
 * @file
 * The LPUART of an LP_FLEXCOMM of MCX N and i.MX RT700, polled; a board's `uart.c` includes this file after it has
 * named
 *
 *   BOARD_FLEXCOMM           address of the LP_FLEXCOMM
 *   BOARD_UART_HZ            its functional clock
 *   board_uart_start()       turns on clocks and releases resets of it and of its pins, and assigns these
 *
 * Registers and bits are those of NXP's device headers. Never run on silicon.
 */
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
#include "uart.h"

typedef struct {
    const volatile uint32_t verid;
    const volatile uint32_t param;
    volatile uint32_t global;
    volatile uint32_t pincfg;
    volatile uint32_t baud;
    volatile uint32_t stat;
    volatile uint32_t ctrl;
    volatile uint32_t data;
    volatile uint32_t match;
    volatile uint32_t modir;
    volatile uint32_t fifo;
    uint32_t reserved[(0xFF8 - 0x2C) / 4];
    volatile uint32_t pselid;
} lpuart_t;
DTN_CHECK_OFFSET(lpuart_t, baud, 0x10);
DTN_CHECK_OFFSET(lpuart_t, fifo, 0x28);
DTN_CHECK_OFFSET(lpuart_t, pselid, 0xFF8);

#define UART ((lpuart_t *)BOARD_FLEXCOMM)

#define STAT_OR (UINT32_C(1) << 19)
#define STAT_RDRF (UINT32_C(1) << 21)
#define STAT_TDRE (UINT32_C(1) << 23)
#define CTRL_BOTH (UINT32_C(3) << 18)                   /* RE, TE */
#define FIFO_BOTH (UINT32_C(1) << 3 | UINT32_C(1) << 7) /* RXFE, TXFE */
#define FIFO_FLUSH (UINT32_C(3) << 14)                  /* RXFLUSH, TXFLUSH */
#define PSELID_UART 1U

/* Returns the register BAUD of the rate that is nearest: the clock divided by 8 to 32 samples a bit and a divisor. */
static uint32_t divisors(uint32_t hz, uint32_t rate)
{
    uint32_t best = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t samples = 8; samples <= 32; samples++) {
        uint32_t divisor = (hz / samples + rate / 2) / rate;
        if (divisor == 0 || divisor > 0x1FFF) {
            continue;
        }
        uint32_t made = hz / (samples * divisor);
        uint32_t error = made > rate ? made - rate : rate - made;
        if (error < least) {
            least = error;
            best = (samples - 1) << 24 | divisor;
        }
    }
    return best;
}

void dtn_uart_start(void)
{
    board_uart_start();
    UART->pselid = PSELID_UART;
    UART->ctrl = 0;
    UART->baud = divisors(BOARD_UART_HZ, DTN_UART_BAUD);
    UART->fifo = FIFO_BOTH | FIFO_FLUSH;
    UART->ctrl = CTRL_BOTH;
}

int32_t dtn_port_getc(void)
{
    if ((UART->stat & STAT_OR) != 0) {
        UART->stat = STAT_OR; /* bytes are lost: the host sends the frame again */
    }
    return (UART->stat & STAT_RDRF) != 0 ? (int32_t)(UART->data & 0xFFU) : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uint32_t start = dtn_port_ticks();
    while ((UART->stat & STAT_TDRE) == 0) {
        if (dtn_port_ticks() - start > DTN_UART_SEND_TICKS) {
            return false;
        }
    }
    UART->data = byte;
    return true;
}
