/**
 * @file
 * Minimum and maximum, which differ in the order of the numbers only.
 */
#pragma once

#include "deuteron/bundle.h"

/** The operator with the parameter `maximum` as here. */
int32_t dtn_cm_extremum(const dtn_operator_call_t *call, dtn_phase_t phase, int32_t maximum);
