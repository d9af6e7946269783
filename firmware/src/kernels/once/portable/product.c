#include "../rounding.h"

#include "../../../cortex_m/portable/product.c"
