/* PE11 (D5) for runs and PE9 (D6) for steps, on the board's Arduino connector. */
#define BOARD_TRIGGER_GPIO 0x58021000U
#define BOARD_TRIGGER_RUN 11
#define BOARD_TRIGGER_STEP 9

#include <stdint.h>

/* Clock enables of the RCC, and the bit of port E. */
#define RCC_AHB4ENR (*(volatile uint32_t *)0x580244E0U)

static void board_trigger_clock(void)
{
    RCC_AHB4ENR |= UINT32_C(1) << 4;
    (void)RCC_AHB4ENR; /* the clock runs after a read */
}

#include "../stm32/trigger.h"
