/**
 * @file
 * Start of a Cortex-M55 of Alif's Ensemble E7 and E8: definitions, for the `board.c` of the cores. The chip's secure
 * enclave has set clocks and power before. Never run on silicon.
 */
#include "board.h"
#include "cache.h"

/* Memory protection unit of Armv8-M. */
typedef struct {
    const volatile uint32_t type;
    volatile uint32_t ctrl;
    volatile uint32_t number;
    volatile uint32_t base;
    volatile uint32_t limit;
    uint32_t reserved[7];
    volatile uint32_t attributes[2];
} mpu_t;
DTN_CHECK_OFFSET(mpu_t, attributes, 0x30);

#define MPU ((mpu_t *)0xE000ED90U)

#define MPU_ON_WITH_DEFAULTS 5U
#define MPU_DEVICE_NGNRE 4U
#define MPU_READ_WRITE_NO_EXECUTE 3U
#define MPU_REGION_ON 1U

/* The pins' registers are at addresses of code, whose default are those of cached memory. */
#define HOST_DEVICES UINT32_C(0x1A000000)
#define HOST_DEVICES_END UINT32_C(0x1AFFFFE0)

void dtn_board_start(void)
{
    MPU->attributes[0] = MPU_DEVICE_NGNRE;
    MPU->number = 0;
    MPU->base = HOST_DEVICES | MPU_READ_WRITE_NO_EXECUTE;
    MPU->limit = HOST_DEVICES_END | MPU_REGION_ON;
    MPU->ctrl = MPU_ON_WITH_DEFAULTS;
    dtn_barrier();
    dtn_cache_start();
    dtn_cycles_start();
}
