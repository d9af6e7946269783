/**
 * @file
 * Operators that are an NPU kernel under another name: what moves, compares or averages stored values rounds alike on
 * both sides.
 */
#ifndef DTN_BY_KERNEL_H
#define DTN_BY_KERNEL_H

#include "deuteron/bundle.h"

/**
 * Calls the kernel with the operator's inputs, its last value as the output, and `params`.
 *
 * The operator has checked the numbers of values and words, and the types; the kernel checks the rest.
 */
int32_t dtn_cm_by_kernel(const dtn_operator_call_t *call, dtn_phase_t phase, dtn_kernel_t kernel, const void *params);

#endif /* DTN_BY_KERNEL_H */
