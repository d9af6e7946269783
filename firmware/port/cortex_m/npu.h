/**
 * @file
 * The NPU of an image with Ethos-U partitions: one of the files of port/ethosu.
 */
#pragma once

#include <stdbool.h>

/** Starts the NPU's driver; returns false on failure. A NULL pointer in images without an Ethos-U. */
__attribute__((weak)) bool dtn_npu_start(void);
