/**
 * @file
 * USART of STM32H7 and STM32U5, polled; a board's `uart.c` includes this file after it has named
 *
 *   BOARD_USART, BOARD_USART_HZ      address and clock of the USART
 *   BOARD_GPIO, BOARD_TX, BOARD_RX   address of the port and the numbers of both pins, 8 to 15
 *   BOARD_ALTERNATE                  alternate function of the pins
 *   board_uart_clocks()              turns on the clocks of both
 *
 * Registers and bits are those of ST's reference manuals RM0433 and RM0456. Never run on silicon.
 */
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "deuteron/harness.h"
#include "deuteron/port.h"
#include "gpio.h"
#include "uart.h"

typedef struct {
    volatile uint32_t cr1;
    volatile uint32_t cr2;
    volatile uint32_t cr3;
    volatile uint32_t brr;
    volatile uint32_t gtpr;
    volatile uint32_t rtor;
    volatile uint32_t rqr;
    const volatile uint32_t isr;
    volatile uint32_t icr;
    const volatile uint32_t rdr;
    volatile uint32_t tdr;
} usart_t;
DTN_CHECK_OFFSET(usart_t, brr, 0x0C);
DTN_CHECK_OFFSET(usart_t, isr, 0x1C);
DTN_CHECK_OFFSET(usart_t, tdr, 0x28);

#define USART ((usart_t *)BOARD_USART)
#define GPIO ((gpio_t *)BOARD_GPIO)

#define CR1_UE UINT32_C(1)
#define CR1_RE (UINT32_C(1) << 2)
#define CR1_TE (UINT32_C(1) << 3)
#define CR1_FIFOEN (UINT32_C(1) << 29)
#define ISR_ORE (UINT32_C(1) << 3)
#define ISR_RXNE (UINT32_C(1) << 5)
#define ISR_TXE (UINT32_C(1) << 7)

static void use_pin(uint32_t pin)
{
    GPIO->afr[1] = (GPIO->afr[1] & ~(UINT32_C(15) << 4 * (pin - 8))) | (uint32_t)BOARD_ALTERNATE << 4 * (pin - 8);
    gpio_set_mode(GPIO, pin, GPIO_ALTERNATE);
}

void dtn_uart_start(void)
{
    board_uart_clocks();
    use_pin(BOARD_TX);
    use_pin(BOARD_RX);
    USART->brr = (BOARD_USART_HZ + DTN_UART_BAUD / 2) / DTN_UART_BAUD;
    USART->cr1 = CR1_FIFOEN | CR1_TE | CR1_RE;
    USART->cr1 |= CR1_UE;
}

int32_t dtn_port_getc(void)
{
    if ((USART->isr & ISR_ORE) != 0) {
        USART->icr = ISR_ORE; /* bytes are lost: the host sends the frame again */
    }
    return (USART->isr & ISR_RXNE) != 0 ? (int32_t)(USART->rdr & 0xFFU) : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uint32_t start = dtn_port_ticks();
    while ((USART->isr & ISR_TXE) == 0) {
        if (dtn_port_ticks() - start > DTN_UART_SEND_TICKS) {
            return false;
        }
    }
    USART->tdr = byte;
    return true;
}
