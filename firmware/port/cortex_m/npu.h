/**
 * @file
 * The NPU of an image with Ethos-U partitions: one of the files of port/ethosu.
 */
#ifndef DTN_PORT_NPU_H
#define DTN_PORT_NPU_H

#include <stdbool.h>

/** Starts the NPU's driver; returns false on failure. A NULL pointer in images without an Ethos-U. */
__attribute__((weak)) bool dtn_npu_start(void);

#endif /* DTN_PORT_NPU_H */
