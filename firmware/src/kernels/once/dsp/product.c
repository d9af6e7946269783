#include "../rounding.h"

#include "../../../cortex_m/dsp/product.c"
