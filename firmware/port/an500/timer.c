/* The timers: two CMSDK APB timers. */
#include "cmsdk_timer.h"
