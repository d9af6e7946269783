/**
 * @file
 * The GPIO of STM32H7 and STM32U5. Registers and bits are those of ST's reference manuals RM0433 and RM0456.
 */
#ifndef STM32_GPIO_H
#define STM32_GPIO_H

#include <stdint.h>

#include "../cortex_m/core.h"

typedef struct {
    volatile uint32_t moder;
    volatile uint32_t otyper;
    volatile uint32_t ospeedr;
    volatile uint32_t pupdr;
    const volatile uint32_t idr;
    volatile uint32_t odr;
    volatile uint32_t bsrr;
    volatile uint32_t lckr;
    volatile uint32_t afr[2];
} gpio_t;
DTN_CHECK_OFFSET(gpio_t, bsrr, 0x18);
DTN_CHECK_OFFSET(gpio_t, afr, 0x20);

enum { GPIO_OUTPUT = 1, GPIO_ALTERNATE = 2 };

static inline void gpio_set_mode(gpio_t *gpio, uint32_t pin, uint32_t mode)
{
    gpio->moder = (gpio->moder & ~(UINT32_C(3) << 2 * pin)) | mode << 2 * pin;
}

#endif /* STM32_GPIO_H */
