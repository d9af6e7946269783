#include "../cmsdk.h"

#include <zephyr/device.h>
#include <zephyr/devicetree.h>
#include <zephyr/drivers/uart.h>

const struct device device_zephyr_console = {"uart0"};

bool device_is_ready(const struct device *dev)
{
    UART[DIVIDER] = 20000000 / 115200;
    UART[CONTROL] = BOTH;
    return dev == &device_zephyr_console;
}

int uart_poll_in(const struct device *dev, unsigned char *p_char)
{
    if (dev != &device_zephyr_console || (UART[STATE] & ARRIVED) == 0) {
        return -1;
    }
    *p_char = (unsigned char)UART[DATA];
    return 0;
}

void uart_poll_out(const struct device *dev, unsigned char out_char)
{
    (void)dev;
    while ((UART[STATE] & FULL) != 0) {
    }
    UART[DATA] = out_char;
}
