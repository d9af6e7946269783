#include "../rounding.h"

#include "../../../cortex_m/dsp/pairs.c"
