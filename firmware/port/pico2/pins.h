/**
 * @file
 * Pins of the RP2350, and their reset. Registers and bits are those of the RP2350's headers.
 */
#ifndef PICO2_PINS_H
#define PICO2_PINS_H

#include <stdint.h>

#define RESETS (*(volatile uint32_t *)0x40020000U)
#define RESETS_DONE (*(const volatile uint32_t *)0x40020008U)
#define RESET_PINS (UINT32_C(1) << 9 | UINT32_C(1) << 6) /* pads, functions */

/* A pin's function, and its pad: input enabled, output disabled, isolated from the device. */
#define PIN_CTRL(pin) (((volatile uint32_t *)0x40028004U)[2 * (pin)])
#define PAD(pin) (((volatile uint32_t *)0x40038004U)[pin])
#define PAD_INPUT (UINT32_C(1) << 6)
#define PAD_NO_OUTPUT (UINT32_C(1) << 7)
#define PAD_ISOLATED (UINT32_C(1) << 8)

enum { FUNCTION_UART = 2, FUNCTION_SIO = 5 };

/** Releases devices from reset; their clocks must run. */
static inline void pins_release(uint32_t devices)
{
    RESETS &= ~devices;
    while ((RESETS_DONE & devices) != devices) {
    }
}

static inline void pins_use(uint32_t pin, uint32_t function)
{
    PAD(pin) = (PAD(pin) & ~PAD_NO_OUTPUT) | PAD_INPUT;
    PIN_CTRL(pin) = function;
    PAD(pin) &= ~PAD_ISOLATED;
}

#endif /* PICO2_PINS_H */
