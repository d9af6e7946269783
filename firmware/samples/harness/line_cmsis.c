/*
 * The line for a CMSIS-Driver: `Driver_USART<LINE_USART>`. The port's ticks must be cycles of the core.
 *
 * A reception fills a buffer, and starts again when all of it is read. Bytes between both are lost: the host sends its
 * request again.
 */
#include "RTE_Components.h"
#include CMSIS_device_header

#include "deuteron/harness.h"
#include "Driver_USART.h"
#include "line.h"

/** Number of the driver. */
#ifndef LINE_USART
#define LINE_USART 0
#endif

#define JOINED(name, number) name##number
#define DRIVER(number) JOINED(Driver_USART, number)

enum { BAUD = 115200, BUFFER_BYTES = 1024, MOST_POLLS = 10000000 };

extern ARM_DRIVER_USART DRIVER(LINE_USART);
static ARM_DRIVER_USART *const usart = &DRIVER(LINE_USART);

static uint8_t buffer[BUFFER_BYTES];
static uint32_t taken; /* bytes of the buffer */

static bool receive(void)
{
    taken = 0;
    return usart->Receive(buffer, BUFFER_BYTES) == ARM_DRIVER_OK;
}

bool line_start(void)
{
    const uint32_t mode = ARM_USART_MODE_ASYNCHRONOUS | ARM_USART_DATA_BITS_8 | ARM_USART_PARITY_NONE |
                          ARM_USART_STOP_BITS_1 | ARM_USART_FLOW_CONTROL_NONE;
    return usart->Initialize(NULL) == ARM_DRIVER_OK && usart->PowerControl(ARM_POWER_FULL) == ARM_DRIVER_OK &&
           usart->Control(mode, BAUD) == ARM_DRIVER_OK && usart->Control(ARM_USART_CONTROL_TX, 1) == ARM_DRIVER_OK &&
           usart->Control(ARM_USART_CONTROL_RX, 1) == ARM_DRIVER_OK && receive();
}

uint32_t line_core_hz(void)
{
    return SystemCoreClock;
}

uint32_t line_ticks_hz(void)
{
    return SystemCoreClock;
}

int32_t dtn_port_getc(void)
{
    if (taken == BUFFER_BYTES && !receive()) {
        return -1;
    }
    return taken < usart->GetRxCount() ? (int32_t)buffer[taken++] : -1;
}

bool dtn_port_putc(uint8_t byte)
{
    static uint8_t sent; /* must stay until the driver has sent it */
    sent = byte;
    if (usart->Send(&sent, 1) != ARM_DRIVER_OK) {
        return false;
    }
    for (uint32_t polls = 0; usart->GetStatus().tx_busy != 0; polls++) {
        if (polls == MOST_POLLS) {
            return false;
        }
    }
    return true;
}
