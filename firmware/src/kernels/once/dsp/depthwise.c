#include "../rounding.h"

#include "../../../cortex_m/dsp/depthwise.c"
