/**
 * @file
 * The first check step: the microcode's header.
 */
#ifndef DTN_HEADER_H
#define DTN_HEADER_H

#include "NeutronDriver.h"
#include "types.h"

/**
 * Whether prepare compares the weights with their CRC-32. 1 (default) costs one pass over the weights per prepare; 0 is
 * for images that are verified as a whole, such as by a secure boot.
 */
#ifndef DTN_CHECK_WEIGHTS_CRC
#define DTN_CHECK_WEIGHTS_CRC 1
#endif

/** Checks the header and fills `model` but for `kernels` and `listed`; returns the first rule that does not hold. */
dtn_reason_t dtn_header_check(const NeutronModelConfig *config, dtn_model_t *model);

/** Compares the microcode and the weights of a checked model with their CRC-32 again; the one that has changed. */
dtn_reason_t dtn_header_verify(const dtn_model_t *model);

#endif /* DTN_HEADER_H */
