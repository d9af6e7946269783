/**
 * @file
 * Declarations that `deuteron firmware --harness serial` generates for an image, besides the bundle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/executor.h"

/** Instructions of a loop that shows whether an emulator counts instructions. */
#define DTN_LOOP_INSTRUCTIONS UINT32_C(20000)

/** Facts about the image, and memory for the events of a run. */
typedef struct {
    const char *board;
    const uint8_t *program; /**< SHA-256 of the .pte that the bundle was made from */
    uint32_t tick_unit;     /**< unit of `dtn_port_ticks`, of deuteron/profile.h */
    uint32_t loop_ticks;    /**< ticks of DTN_LOOP_INSTRUCTIONS in the emulator, 0 on silicon */
    bool is_npu_emulated;   /**< the core executes the commands of an NPU */
    uint32_t flash_latency_ns;
    uint32_t flash_bytes_per_second;
    dtn_event_t *events;
    uint32_t event_capacity;
} dtn_harness_image_t;

extern const dtn_harness_image_t dtn_harness_image;
