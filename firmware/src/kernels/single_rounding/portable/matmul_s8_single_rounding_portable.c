#include "../single_rounding.h"

#include "../../../cortex_m/portable/matmul_s8_portable.c"
