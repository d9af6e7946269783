/* PE11 (D5) for runs and PE9 (D6) for steps, on the board's Arduino connector. */
#define BOARD_TRIGGER_GPIO 0x42021000U
#define BOARD_TRIGGER_RUN 11
#define BOARD_TRIGGER_STEP 9

#include <stdint.h>

/* Clock enables of the RCC, and the bit of port E. */
#define RCC_AHB2ENR1 (*(volatile uint32_t *)0x46020C8CU)

static void board_trigger_clock(void)
{
    RCC_AHB2ENR1 |= UINT32_C(1) << 4;
    (void)RCC_AHB2ENR1; /* the clock runs after a read */
}

#include "../stm32/trigger.h"
