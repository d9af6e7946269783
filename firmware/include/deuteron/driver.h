/**
 * @file
 * What this driver offers beside the `neutron*` API.
 */
#ifndef DEUTERON_DRIVER_H
#define DEUTERON_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "NeutronDriver.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that are enough for a model context, in this and later versions: `neutronGetModelContextSize()` or more. */
#define DTN_CONTEXT_BYTES UINT32_C(128)

/** Sizes of a prepared model. */
typedef struct {
    uint32_t inputs;
    uint32_t outputs;
    const uint32_t *tensor_bytes; /**< of each input, then of each output */
    uint32_t scratch_bytes;
    uint32_t prefetch_bytes;
    uint32_t profile_bytes;
} dtn_model_info_t;

/** The sizes of a prepared model; an error for a handle that is none. */
NeutronError dtn_model_info(NeutronModelHandle hdl, dtn_model_info_t *info);

/**
 * Promises (true) that nothing but this model writes to the prefetch area between its runs. Weights that the model
 * keeps resident are then copied by the first run only; without the promise, by each. A run with another area, or after
 * one that failed, copies them again. Prepare starts without the promise.
 */
NeutronError dtn_model_keep_prefetch(NeutronModelHandle hdl, bool keep);

/**
 * Tells the driver that a copy of the weights failed or took too long; called by the `copy` or `wait` hook, which have
 * no return value. The run ends with DTN_REASON_FETCH before anything reads the data. The hook must have stopped the
 * copy. With hooks that call this, only one model may run at a time: the driver cannot tell whose copy it was.
 */
void dtn_fetch_failed(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_DRIVER_H */
