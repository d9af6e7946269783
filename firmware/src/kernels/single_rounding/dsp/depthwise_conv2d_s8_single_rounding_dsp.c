#include "../single_rounding.h"

#include "../../../cortex_m/dsp/depthwise_conv2d_s8_dsp.c"
