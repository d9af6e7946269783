/**
 * @file
 * Runs and resets of a program for all applications on the boards under `port/`. The runner for files of the host
 * (`semihost/`) and the one for a serial line (`harness/`) differ in how inputs arrive and results leave.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/executor.h"
#include "deuteron/harness.h"

/** Inputs, outputs and end of a run. */
typedef struct {
    const void *const *inputs; /**< copied before the first step, or NULL; unused in a continuation */
    void *const *outputs;      /**< copied after the last step, or NULL */
    uint32_t stop;             /**< completed steps at which to pause; UINT32_MAX for never */
    bool is_continued;         /**< continues the paused run in place of a new one */
} dtn_run_request_t;

/** Runs until at least `stop` steps are complete, or all: the executor completes some of them together. Drives the
 * pins of an energy meter (`dtn_port_trigger`), and writes what was measured to `result`. */
void dtn_runner_run(dtn_executor_t *executor, const dtn_run_request_t *request, dtn_harness_run_t *result);

/** Resets the state, if the program has one. */
NeutronError dtn_runner_reset(dtn_executor_t *executor);
