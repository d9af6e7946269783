/**
 * @file
 * The steps of prepare, and of a run.
 */
#ifndef DTN_MODEL_H
#define DTN_MODEL_H

#include "NeutronDriver.h"
#include "types.h"

/**
 * All check steps on the blocks of `config` with the kernels of `kernels`; fills `model`. Each returns the first rule
 * that does not hold, and may read what earlier ones checked: header, then kernels block, then commands.
 */
NeutronError dtn_model_check(const NeutronModelConfig *config, const dtn_kernel_t *kernels, dtn_model_t *model);

/** Checks the pointers of `data` and runs the model; resident bytes of its prefetch area may be in place already. */
NeutronError dtn_model_run(const dtn_model_t *model, const NeutronDataConfig *data, bool resident);

#endif /* DTN_MODEL_H */
