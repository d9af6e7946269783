/**
 * @file
 * Prepares and runs a model.
 */
#pragma once

#include "NeutronDriver.h"
#include "types.h"

/**
 * Checks the blocks of `config` with the kernels of `kernels`, and fills `model`. Returns the first violated rule. Each
 * step may rely on earlier ones: header, then kernels block, then commands.
 */
NeutronError dtn_model_check(const NeutronModelConfig *config, const dtn_kernel_t *kernels, dtn_model_t *model);

/** Checks the pointers of `data` and runs the model; `resident`: resident bytes of the prefetch area are in place. */
NeutronError dtn_model_run(const dtn_model_t *model, const NeutronDataConfig *data, bool resident);
