#pragma once

#include <stdint.h>

static inline int sys_clock_hw_cycles_per_sec(void)
{
    return 20000000;
}
