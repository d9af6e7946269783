#include <stddef.h>
#include <stdint.h>

extern uint32_t SystemCoreClock;
