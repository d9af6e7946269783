/**
 * @file
 * The system timer of Armv7-M and Armv8-M cores.
 */
#pragma once

#include <stdint.h>

typedef struct {
    volatile uint32_t control;
    volatile uint32_t reload;
    volatile uint32_t value;
} systick_t;

#define SYSTICK ((systick_t *)0xE000E010U)
