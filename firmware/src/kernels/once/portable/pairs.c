#include "../rounding.h"

#include "../../../cortex_m/portable/pairs.c"
