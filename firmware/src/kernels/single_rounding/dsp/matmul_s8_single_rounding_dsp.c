#include "../single_rounding.h"

#include "../../../cortex_m/dsp/matmul_s8_dsp.c"
