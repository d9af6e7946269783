/**
 * @file
 * The pads of int8 and of int16 tensors.
 */
#pragma once

#include "cortex_m.h"

/** Runs or checks a call of `pad` or `pad_s16`, whose records are alike, on values of this type. */
int32_t dtn_cm_padding(const dtn_operator_call_t *call, dtn_phase_t phase, uint32_t type);
