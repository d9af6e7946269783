/**
 * @file
 * Two pins of the GPIO of STM32H7 and STM32U5 for an energy meter; a board's `trigger.c` includes this file after it
 * has named
 *
 *   BOARD_TRIGGER_GPIO                       address of the port
 *   BOARD_TRIGGER_RUN, BOARD_TRIGGER_STEP    numbers of the pins
 *   board_trigger_clock()                    turns on the clock of the port
 *
 * Registers and bits are those of ST's reference manuals RM0433 and RM0456. Never run on silicon.
 */
#include <stdbool.h>
#include <stdint.h>

#include "../cortex_m/trigger.h"
#include "deuteron/harness.h"
#include "gpio.h"

#define TRIGGER_GPIO ((gpio_t *)BOARD_TRIGGER_GPIO)

static const uint8_t trigger_pins[] = {[DTN_TRIGGER_RUN] = BOARD_TRIGGER_RUN, [DTN_TRIGGER_STEP] = BOARD_TRIGGER_STEP};

void dtn_port_trigger(uint32_t pin, bool level)
{
    /* The lower half sets pins, the upper half resets them. */
    TRIGGER_GPIO->bsrr = UINT32_C(1) << (trigger_pins[pin] + (level ? 0 : 16));
}

void dtn_trigger_start(void)
{
    board_trigger_clock();
    for (uint32_t pin = 0; pin < sizeof trigger_pins; pin++) {
        dtn_port_trigger(pin, false);
        gpio_set_mode(TRIGGER_GPIO, trigger_pins[pin], GPIO_OUTPUT);
    }
}
