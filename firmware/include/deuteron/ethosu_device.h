/**
 * @file
 * Simulated Ethos-U below the API of Arm's driver (`ethosu_driver.h`): caller-owned memory replaces the NPU's
 * registers.
 */
#ifndef DEUTERON_ETHOSU_DEVICE_H
#define DEUTERON_ETHOSU_DEVICE_H

#include "deuteron/ethosu.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An NPU. A port sets the fields before `fault`, zeros the others, and passes its address to `ethosu_init`.
 *
 * `dtn_ethosu_device_check` computes the required workspace, also while there is none.
 */
struct ethosu_device {
    const dtn_ethosu_config_t *config; /**< streams for others are rejected; NULL accepts all */
    uint8_t *shram;                    /**< aligned to 16, of the configuration's `shram_bytes` */
    size_t shram_bytes;
    uint8_t *workspace; /**< aligned to 16 */
    size_t workspace_bytes;
    dtn_ethosu_fault_t fault; /**< fault of the last job */
    dtn_ethosu_event_t event; /**< position of the fault */
    size_t workspace_needed;  /**< workspace of the stream that was checked last */
    dtn_ethosu_t machine;
};

/**
 * Checks command data against a device, and the bytes of each region: `dtn_ethosu_check`. The device's fault and event
 * describe an error. `workspace_needed` becomes the stream's need; an existing smaller workspace is a fault with the
 * same detail. The device's memory is not accessed.
 */
dtn_ethosu_fault_t dtn_ethosu_device_check(struct ethosu_device *device, const void *command_data,
                                           size_t command_data_bytes, const size_t *region_bytes, size_t regions);

/** The size of a `struct ethosu_device`, for callers in other languages. */
size_t dtn_ethosu_device_bytes(void);

/** The size of a `struct ethosu_driver`, for callers in other languages. */
size_t dtn_ethosu_driver_bytes(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_DEVICE_H */
