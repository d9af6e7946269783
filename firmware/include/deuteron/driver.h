/**
 * @file
 * Extensions of the `neutron*` API, and the rules for concurrency.
 *
 * @section concurrency Concurrency
 *
 * This is the contract of the driver, the executor (deuteron/executor.h), their hooks and the port. "Concurrently"
 * means on several threads, or in an interrupt that pre-empts a run and returns when its own run is complete.
 *
 * - **Runs** of different models may be concurrent, each with its own buffers. So may runs of one model, unless it
 * keeps its prefetch area (`dtn_model_keep_prefetch`): then its runs must follow one another. Runs share no writable
 * data, and a failure ends only the run that meets it.
 * - **Runs that fetch**, those of models with a prefetch area, share the channels of the hooks. The default hooks copy
 *   immediately and serve any number of runs. Others serve as many as they document; those in `port/` serve one run at
 * a time, reject a channel until its copy has completed, and reject calls in an interrupt. A run without fetches calls
 * no hook, and a run waits only for its own copies.
 * - **Handles**: preparing, unpreparing, `dtn_model_keep_prefetch` and `dtn_use_panels` must not be called during a
 *   run of the same handle; different handles are independent. `dtn_model_info` and `dtn_model_verify` only read.
 * - **Hooks**: `neutronSetConfig`, `dtn_set_fetch_hooks` and `dtn_set_progress` must not be called during any run. The
 *   function of `dtn_set_progress` may be called by several runs at once.
 * - **`neutronInit` and `neutronDeinit`** are counted: the first call prepares the port and the last releases it, so
 * that components of one image are independent. They must not be called concurrently; the last `neutronDeinit` not
 * during a run.
 * - **Executors**: as for models, one run of each at a time; concurrent executors need their own memories. A run in
 *   steps lasts from `dtn_executor_start` to `dtn_executor_finish`.
 * - **Copies of inputs and outputs**: the default ones (deuteron/io.h) serve any number of runs; those in `port/` serve
 *   one at a time, and reject others (DTN_IO_BUSY) until it has completed. They do not wait, because a run may have
 *   pre-empted the run with the copy. The rejected run ends with DTN_REASON_IO_BUSY and may be run again; on threads, a
 *   mutex around `dtn_executor_run`, or in the copies of an override, lets runs wait for each other.
 * - **Our delegates for ExecuTorch's runtime** share these copies with all others. While the port's copy is in use, the
 *   core copies their tensors, and none of their runs ends because of it.
 * - **The port's** `dtn_port_ticks`, its NPU counters and its cache functions (deuteron/port.h) may be called by
 * several runs at once.
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

/** Upper bound of the bytes of a model context, in this and later versions: `neutronGetModelContextSize()` or more. A
 * bundle reserves as many for a partition of any NPU. */
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

/** Returns the sizes of a prepared model; an error for an invalid handle. */
NeutronError dtn_model_info(NeutronModelHandle hdl, dtn_model_info_t *info);

/**
 * Checks the microcode and the weights of a prepared model against their CRC-32 again, for images whose memory may be
 * damaged while they run. Returns DTN_REASON_MICROCODE_CRC or DTN_REASON_WEIGHTS_CRC for a mismatch. For a bundle,
 * `dtn_executor_init` checks everything again after a `dtn_executor_deinit`.
 */
NeutronError dtn_model_verify(NeutronModelHandle hdl);

/**
 * Promises (true) that only this model writes to the prefetch area between its runs. Only the first run then copies
 * resident weights; without the promise, each run does. A run with another area, or after a failed run, copies them
 * again. Prepare starts without the promise.
 */
NeutronError dtn_model_keep_prefetch(NeutronModelHandle hdl, bool keep);

/** The hooks of `neutronSetConfig` with a result, for a DMA that can fail. */
typedef struct {
    /**
     * Starts to copy `size` bytes, a multiple of 16 between 16-byte aligned addresses; may return before the copy is
     * complete. Returns false if it cannot start, for example while another run uses the channel; nothing is copied.
     */
    bool (*copy)(void *dst, const void *src, uint32_t size, uint32_t channel);
    /**
     * Returns when the copy on `channel` is complete; called once after each `copy` that returned true. Returns false
     * if it failed or timed out; the copy must have stopped. A failure in an interrupt must be stored until this call.
     */
    bool (*wait)(uint32_t channel);
} dtn_fetch_hooks_t;

/**
 * Installs these hooks for all models, replacing those of `neutronSetConfig`. Both are required. The structure is
 * copied. A run whose hook returns false ends with DTN_REASON_FETCH before anything reads the data.
 */
NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks);

/** Callback for progress, with the pointer given for it. True continues the run; false aborts it. */
typedef bool (*dtn_progress_t)(void *user);

/**
 * Installs a function that every run calls after each of its commands, and the executor after each step, on the thread
 * of the run. It may feed a watchdog, let other threads work, or abort the run. NULL, the initial state, for none.
 * Between two calls is one kernel, one operator, or one partition of an NPU that runs by itself.
 *
 * An aborted run ends with DTN_REASON_ABORTED. Every copy that it started has completed by then, its outputs are
 * undefined, and the next run is not affected. In the steps that change a state, the function's result has no effect.
 */
void dtn_set_progress(dtn_progress_t progress, void *user);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_DRIVER_H */
