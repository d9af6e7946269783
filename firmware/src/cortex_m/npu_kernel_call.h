/**
 * @file
 * Calls of NPU kernels by Cortex-M operators. Operators that move, compare or average stored values round as the
 * kernels do, and use them.
 */
#pragma once

#include "deuteron/bundle.h"

/**
 * The kernel's call for an operator's: its inputs, its last value as the output, and `params`.
 *
 * The operator has checked the numbers of values and words, and the types; the kernel checks the rest.
 */
dtn_call_t dtn_cm_kernel_call(const dtn_operator_call_t *call, dtn_phase_t phase, const void *params);

/** The result of an operator for a result of its kernel. */
static inline int32_t dtn_cm_reason(int32_t reason)
{
    return reason == DTN_OK ? DTN_OK : DTN_REASON_OPERATOR;
}
