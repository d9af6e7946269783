#include "../single_rounding.h"
#include "../single_rounding_mve.h"

#include "../../../cortex_m/mve/matmul_s8_mve.c"
