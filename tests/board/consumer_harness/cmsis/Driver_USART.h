/* What the sample takes of CMSIS-Driver's USART: names and arguments as Arm's documentation gives them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ARM_DRIVER_OK 0
#define ARM_USART_CONTROL_TX 0x15U
#define ARM_USART_CONTROL_RX 0x16U
#define ARM_USART_MODE_ASYNCHRONOUS 0x01U
#define ARM_USART_DATA_BITS_8 0U
#define ARM_USART_PARITY_NONE 0U
#define ARM_USART_STOP_BITS_1 0U
#define ARM_USART_FLOW_CONTROL_NONE 0U

typedef enum { ARM_POWER_OFF, ARM_POWER_LOW, ARM_POWER_FULL } ARM_POWER_STATE;
typedef void (*ARM_USART_SignalEvent_t)(uint32_t event);
typedef struct {
    uint32_t tx_busy : 1;
    uint32_t rx_busy : 1;
} ARM_USART_STATUS;

typedef struct {
    int32_t (*Initialize)(ARM_USART_SignalEvent_t cb_event);
    int32_t (*PowerControl)(ARM_POWER_STATE state);
    int32_t (*Send)(const void *data, uint32_t num);
    int32_t (*Receive)(void *data, uint32_t num);
    uint32_t (*GetRxCount)(void);
    int32_t (*Control)(uint32_t control, uint32_t arg);
    ARM_USART_STATUS (*GetStatus)(void);
} const ARM_DRIVER_USART;
