#include "../rounding.h"

#include "../../../cortex_m/portable/convolution.c"
