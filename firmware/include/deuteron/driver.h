/**
 * @file
 * What this driver offers beside the `neutron*` API, and what may happen at the same time.
 *
 * @section concurrency Concurrency
 *
 * The one contract of the driver, the executor (deuteron/executor.h), their hooks and the port. "At the same time"
 * means on several threads, or in an interrupt that pre-empts a run and returns when its own run is over.
 *
 * - **Runs** of different models may take place at the same time, each with buffers of its own. So may runs of one
 *   model, unless it keeps its prefetch area (`dtn_model_keep_prefetch`): its runs follow one another. Runs share
 *   nothing that they write, and a failure ends the run that met it and no other.
 * - **Runs that fetch**, those of models with a prefetch area, share the channels of the hooks. The default hooks copy
 *   at once and serve any number of runs. Others serve as many as they say; those in `port/` serve one run at a time,
 *   refuse a channel until its copy has been waited for, and refuse to work in an interrupt. A run that fetches nothing
 *   calls no hook, and one that fetches waits only for copies that it has started.
 * - **Handles**: preparing, unpreparing, `dtn_model_keep_prefetch` and `dtn_use_panels` must not take place during a
 *   run of the same handle; different handles have nothing to do with each other. `dtn_model_info` and
 *   `dtn_model_verify` only read.
 * - **Hooks**: `neutronSetConfig`, `dtn_set_fetch_hooks` and `dtn_set_progress` must not be called during any run. The
 *   function of `dtn_set_progress` may be called by several runs at once.
 * - **`neutronInit` and `neutronDeinit`** count: the first call prepares the port and the last releases it, so that
 *   components of one image need not know of each other. They are called one at a time; the last `neutronDeinit`, not
 *   during a run.
 * - **Executors** are as models: one run of each at a time, at the same time only with memories of their own. A run in
 *   steps lasts from `dtn_executor_start` to `dtn_executor_finish`.
 * - **Copies of inputs and outputs**: the default ones (deuteron/io.h) serve any number of runs; those in `port/` serve
 *   one at a time, and refuse others (DTN_IO_BUSY) until it has been waited for. They do not wait: a run may have
 *   pre-empted the one whose copy it would wait for. The refused run ends with DTN_REASON_IO_BUSY and may be run again;
 *   on threads, a mutex round `dtn_executor_run`, or the copies of an override, lets runs wait for each other.
 * - **Our delegates for ExecuTorch's runtime** share these copies with all others, too. While a port's copy is
 *   another's, the core copies their tensors, and no run of theirs ends because of it.
 * - **The port's** `dtn_port_ticks`, its counters of the NPU's and its cache functions (deuteron/port.h) may be called
 *   by several runs at once.
 */
#ifndef DEUTERON_DRIVER_H
#define DEUTERON_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/version.h"
#include "NeutronDriver.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that are enough for a model context, in this and later versions: `neutronGetModelContextSize()` or more. A
 * bundle keeps as many for a partition of any NPU. */
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
 * Compares the microcode and the weights of a prepared model with their CRC-32 again, as prepare did: for images whose
 * memory may be damaged while they run. DTN_REASON_MICROCODE_CRC or DTN_REASON_WEIGHTS_CRC for what is not as it was.
 * Of a bundle, `dtn_executor_init` checks all again after a `dtn_executor_deinit`.
 */
NeutronError dtn_model_verify(NeutronModelHandle hdl);

/**
 * Promises (true) that nothing but this model writes to the prefetch area between its runs. Weights that the model
 * keeps resident are then copied by the first run only; without the promise, by each. A run with another area, or after
 * one that failed, copies them again. Prepare starts without the promise.
 */
NeutronError dtn_model_keep_prefetch(NeutronModelHandle hdl, bool keep);

/** The hooks of `neutronSetConfig` with a result, for a DMA that can fail. */
typedef struct {
    /**
     * Starts to copy `size` bytes, a multiple of 16 between 16-byte aligned addresses, and may return before it is
     * done. False when it cannot, such as while the channel still copies for another run: nothing is copied then.
     */
    bool (*copy)(void *dst, const void *src, uint32_t size, uint32_t channel);
    /**
     * Returns when the copy on `channel` is done; called once after each `copy` that returned true. False when it
     * failed or took too long: nothing goes on copying then. What an interrupt learns of a failure, it keeps for this.
     */
    bool (*wait)(uint32_t channel);
} dtn_fetch_hooks_t;

/**
 * Installs these hooks for all models, in place of those of `neutronSetConfig`. Both must be given. The structure is
 * copied. A run whose hook returns false ends with DTN_REASON_FETCH before anything reads the data.
 */
NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks);

/** Told of progress, with the pointer that was given for it. True lets the run go on; false aborts it. */
typedef bool (*dtn_progress_t)(void *user);

/**
 * Installs a function that every run calls after each of its commands, and the executor after each step, on the thread
 * of the run: to feed a watchdog, to let others work, or to abort the run. NULL, the state at the start: none. What
 * lies between two of its calls is one kernel, one operator, or one partition of an NPU that runs by itself.
 *
 * A run that it aborts ends with DTN_REASON_ABORTED. Every copy that the run has started has been waited for by then,
 * its outputs are undefined, and the next run is not affected.
 */
void dtn_set_progress(dtn_progress_t progress, void *user);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_DRIVER_H */
