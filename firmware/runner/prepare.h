/**
 * @file
 * The part that all applications on the boards under `port/` share: the runner for files of the host (`semihost/`) and
 * the one for a serial line (`harness/`).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/bundle.h"
#include "deuteron/executor.h"

/** The program and its memories, from the C file that `deuteron firmware` generates. */
extern const dtn_bundle_t dtn_bundle;
extern const dtn_memory_t dtn_bundle_memories[];

/** Result of the preparation of the image's program. */
typedef struct {
    NeutronError error;  /**< of the driver or the executor; ENONE if the program can run */
    bool is_npu_started; /**< false if the NPU's driver does not start */
    uint32_t init_ticks; /**< ticks of `dtn_executor_init` */
} dtn_prepared_t;

/** Starts driver and NPU, installs the fetches of weights with the timing of a flash, and prepares the executor. */
dtn_prepared_t dtn_runner_prepare(dtn_executor_t *executor, uint32_t flash_latency_ns, uint32_t flash_bytes_per_second);
