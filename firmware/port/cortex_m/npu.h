/**
 * @file
 * The NPU of an image whose bundle has partitions for an Ethos-U: one of the files of port/ethosu.
 */
#ifndef DTN_PORT_NPU_H
#define DTN_PORT_NPU_H

#include <stdbool.h>

/** Starts the NPU's driver; false when that fails. A NULL pointer in images without an Ethos-U. */
__attribute__((weak)) bool dtn_npu_start(void);

#endif /* DTN_PORT_NPU_H */
