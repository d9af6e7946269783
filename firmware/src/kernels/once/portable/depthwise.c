#include "../rounding.h"

#include "../../../cortex_m/portable/depthwise.c"
