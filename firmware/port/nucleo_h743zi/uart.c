/* USART3 on PD8 and PD9, which the board's ST-LINK connects with its virtual COM port. */
#include <stdint.h>

#define BOARD_USART 0x40004800U
#define BOARD_USART_HZ DTN_CORE_HZ
#define BOARD_GPIO 0x58020C00U
#define BOARD_TX 8
#define BOARD_RX 9
#define BOARD_ALTERNATE 7

/* Clock enables of the RCC, and the bits of port D and of USART3. */
#define RCC_AHB4ENR (*(volatile uint32_t *)0x580244E0U)
#define RCC_APB1LENR (*(volatile uint32_t *)0x580244E8U)

static void board_uart_clocks(void)
{
    RCC_AHB4ENR |= UINT32_C(1) << 3;
    RCC_APB1LENR |= UINT32_C(1) << 18;
    (void)RCC_APB1LENR; /* the clock runs after a read */
}

#include "../stm32/usart.h"
