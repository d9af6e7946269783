/**
 * @file
 * Where the values of a checked bundle are.
 */
#ifndef DTN_VALUES_H
#define DTN_VALUES_H

#include "deuteron/executor.h"

/** The value that word `word` of the bundle names. */
const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word);

/** The address of a value; to be written only where the step may. */
void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value);

/** The value that word `word` names, with its address. */
dtn_tensor_t dtn_value_tensor(const dtn_executor_t *executor, uint32_t word);

#endif /* DTN_VALUES_H */
