/* The UART of this board. */
#include "cmsdk_uart.h"
