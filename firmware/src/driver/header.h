/**
 * @file
 * Checks the microcode's header, the first check step.
 */
#pragma once

#include "NeutronDriver.h"
#include "types.h"

/**
 * Enables the check of the weights' CRC-32 in prepare. 1 (default) costs one pass over the weights per prepare; 0 is
 * for images that are verified as a whole, for example by a secure boot.
 */
#ifndef DTN_CHECK_WEIGHTS_CRC
#define DTN_CHECK_WEIGHTS_CRC 1
#endif

/** Checks the header and fills `model`, except `kernels` and `listed`; returns the first violated rule. */
dtn_reason_t dtn_header_check(const NeutronModelConfig *config, dtn_model_t *model);

/** Checks the CRC-32 of the microcode and the weights of a checked model again; returns which one has changed. */
dtn_reason_t dtn_header_verify(const dtn_model_t *model);
