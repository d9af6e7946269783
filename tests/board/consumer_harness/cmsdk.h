/* The first UART of the AN505, polled. */
#pragma once

#include <stdint.h>

#define UART ((volatile uint32_t *)0x50200000U)

enum { DATA = 0, STATE = 1, CONTROL = 2, DIVIDER = 4, FULL = 1, ARRIVED = 2, BOTH = 3 };
