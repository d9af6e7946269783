/* USART1 on PA9 and PA10, which the board's ST-LINK connects with its virtual COM port. */
#include <stdint.h>

#define BOARD_USART 0x40013800U
#define BOARD_USART_HZ DTN_CORE_HZ
#define BOARD_GPIO 0x42020000U
#define BOARD_TX 9
#define BOARD_RX 10
#define BOARD_ALTERNATE 7

/* Clock enables of the RCC, and the bits of port A and of USART1. */
#define RCC_AHB2ENR1 (*(volatile uint32_t *)0x46020C8CU)
#define RCC_APB2ENR (*(volatile uint32_t *)0x46020CA4U)

static void board_uart_clocks(void)
{
    RCC_AHB2ENR1 |= 1U;
    RCC_APB2ENR |= UINT32_C(1) << 14;
    (void)RCC_APB2ENR; /* the clock runs after a read */
}

#include "../stm32/usart.h"
