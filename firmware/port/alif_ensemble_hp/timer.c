/* The deadline timer, for the wait for the NPU. */
#include "systick_timer.h"
