#include "../single_rounding.h"

#include "../../../cortex_m/dsp/matmul_row_pairs_s8_dsp.c"
