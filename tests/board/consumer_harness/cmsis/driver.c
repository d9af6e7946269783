/* A driver without interrupts: it moves what has arrived when it is asked. */
#include "../cmsdk.h"
#include "Driver_USART.h"
#include "device.h"

uint32_t SystemCoreClock = 20000000;

static uint8_t *to;
static uint32_t wanted, count;

static int32_t initialize(ARM_USART_SignalEvent_t cb_event)
{
    (void)cb_event;
    return ARM_DRIVER_OK;
}

static int32_t power(ARM_POWER_STATE state)
{
    return state == ARM_POWER_FULL ? ARM_DRIVER_OK : -1;
}

static int32_t control(uint32_t what, uint32_t arg)
{
    if (what == ARM_USART_MODE_ASYNCHRONOUS) {
        UART[DIVIDER] = SystemCoreClock / arg;
    } else {
        UART[CONTROL] |= what == ARM_USART_CONTROL_TX ? 1U : 2U;
    }
    return ARM_DRIVER_OK;
}

static int32_t send(const void *data, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        while ((UART[STATE] & FULL) != 0) {
        }
        UART[DATA] = ((const uint8_t *)data)[i];
    }
    return ARM_DRIVER_OK;
}

static int32_t receive(void *data, uint32_t num)
{
    to = data;
    wanted = num;
    count = 0;
    return ARM_DRIVER_OK;
}

static uint32_t received(void)
{
    if (count < wanted && (UART[STATE] & ARRIVED) != 0) {
        to[count++] = (uint8_t)UART[DATA];
    }
    return count;
}

static ARM_USART_STATUS status(void)
{
    return (ARM_USART_STATUS){0, count < wanted};
}

ARM_DRIVER_USART Driver_USART0 = {initialize, power, send, receive, received, control, status};
