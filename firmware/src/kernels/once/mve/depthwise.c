#include "../rounding.h"
#include "../rounding_lanes.h"

#include "../../../cortex_m/mve/depthwise.c"
