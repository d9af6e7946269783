#include "../single_rounding.h"

#include "../../../cortex_m/portable/matmul_row_pairs_s8_portable.c"
