#include "../single_rounding.h"

#include "../../../cortex_m/portable/depthwise_conv2d_s8_portable.c"
