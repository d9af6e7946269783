/**
 * @file
 * Checks the kernels block and the commands, after the header.
 */
#pragma once

#include "types.h"

/** Checks the kernels block against `model->kernels` and fills `model->listed`. */
NeutronError dtn_kernels_check(const uint32_t *block, dtn_model_t *model);

/** Checks every command, and the bytes after the last one. */
NeutronError dtn_commands_check(const dtn_model_t *model);
