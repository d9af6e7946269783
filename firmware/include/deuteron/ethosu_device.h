/**
 * @file
 * What takes the place of an Ethos-U's registers below the API of Arm's driver (`ethosu_driver.h`): memory of the
 * caller for an NPU that is executed on the CPU.
 */
#ifndef DEUTERON_ETHOSU_DEVICE_H
#define DEUTERON_ETHOSU_DEVICE_H

#include "deuteron/ethosu.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An NPU. A port fills in what stands above `fault`, zeros elsewhere, and gives its address to `ethosu_init`.
 *
 * `dtn_ethosu_device_check` says how large the workspace has to be, while there is none, too.
 */
struct ethosu_device {
    const dtn_ethosu_config_t *config; /**< streams for others are refused; NULL: none are */
    uint8_t *shram;                    /**< aligned to 16, of the configuration's `shram_bytes` */
    size_t shram_bytes;
    uint8_t *workspace; /**< aligned to 16 */
    size_t workspace_bytes;
    dtn_ethosu_fault_t fault; /**< of the last job */
    dtn_ethosu_event_t event; /**< where it is */
    size_t workspace_needed;  /**< by the stream that was checked last */
    dtn_ethosu_t machine;
};

/**
 * Checks command data against a device, and how many bytes each region has: `dtn_ethosu_check`. The device's fault and
 * event say what is wrong. `workspace_needed` becomes what the stream needs; a workspace that is there and smaller is a
 * fault, whose detail is that, too. The device's memory is not touched.
 */
dtn_ethosu_fault_t dtn_ethosu_device_check(struct ethosu_device *device, const void *command_data,
                                           size_t command_data_bytes, const size_t *region_bytes, size_t regions);

/** The size of a `struct ethosu_device`, for callers in other languages. */
size_t dtn_ethosu_device_bytes(void);

/** The size of a `struct ethosu_driver`, for them too. */
size_t dtn_ethosu_driver_bytes(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_DEVICE_H */
