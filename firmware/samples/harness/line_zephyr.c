/* The line for Zephyr: the UART of the console, polled. The console must not print: see prj.conf. */
#include <zephyr/device.h>
#include <zephyr/devicetree.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>

#include "deuteron/harness.h"
#include "line.h"

static const struct device *const uart = DEVICE_DT_GET(DT_CHOSEN(zephyr_console));

bool line_start(void)
{
    return device_is_ready(uart); /* the devicetree's `current-speed` is the rate */
}

uint32_t line_core_hz(void)
{
    return DT_PROP_OR(DT_PATH(cpus, cpu_0), clock_frequency, 0); /* 0: unknown */
}

uint32_t line_ticks_hz(void)
{
    return sys_clock_hw_cycles_per_sec();
}

int32_t dtn_port_getc(void)
{
    unsigned char byte;
    return uart_poll_in(uart, &byte) == 0 ? (int32_t)byte : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    uart_poll_out(uart, byte);
    return true;
}
