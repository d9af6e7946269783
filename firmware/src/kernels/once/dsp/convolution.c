#include "../rounding.h"

#include "../../../cortex_m/dsp/convolution.c"
