/**
 * @file
 * Addresses of the values of a checked bundle.
 */
#ifndef DTN_VALUES_H
#define DTN_VALUES_H

#include <stddef.h>

#include "../driver/call.h"
#include "deuteron/executor.h"

/* A value starts with the words of a reference. */
typedef char value_starts_as_a_reference[offsetof(dtn_value_t, memory) == offsetof(dtn_ref_t, place) &&
                                                 offsetof(dtn_value_t, offset) == offsetof(dtn_ref_t, offset) &&
                                                 offsetof(dtn_value_t, bytes) == offsetof(dtn_ref_t, bytes)
                                             ? 1
                                             : -1];

/** True if two values share no byte. */
static inline bool dtn_values_are_disjoint(const dtn_value_t *a, const dtn_value_t *b)
{
    return dtn_is_disjoint((const dtn_ref_t *)a, (const dtn_ref_t *)b);
}

/** The value that word `word` of the bundle names. */
static inline const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word)
{
    return &bundle->values[bundle->words[word]];
}

/** The address of a value; writable only if the step may write it. */
void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value);

/** Fills in the values that `count` words from `word` on name, with their addresses. */
void dtn_value_tensors(const dtn_executor_t *executor, uint32_t word, uint32_t count, dtn_tensor_t *tensors);

#endif /* DTN_VALUES_H */
