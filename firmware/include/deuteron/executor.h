/**
 * @file
 * Runs a bundle: the CPU operators and the NPU's partitions of a program, in order, in caller-owned memory. Section
 * Concurrency of deuteron/driver.h defines what may run concurrently.
 */
#ifndef DEUTERON_EXECUTOR_H
#define DEUTERON_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deuteron/bundle.h"
#include "deuteron/driver.h"
#include "NeutronErrors.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Enables events inside steps. 0 (default) adds nothing to an image; 1 adds an event of 16 bytes for each command of a
 * partition, if its microcode was built with profiling. All files of an image that include this one must be compiled
 * with the same value. An application does not link with a library of the other value, because the names of the
 * functions that prepare a program differ.
 */
#ifndef DTN_PROFILING
#define DTN_PROFILING 0
#endif
#if DTN_PROFILING
#define dtn_executor_init dtn_executor_init_with_profiling
#define dtn_executor_init_shared dtn_executor_init_shared_with_profiling
#endif

/**
 * Set if the core has a data cache, which the executor then cleans and invalidates around each step of an NPU. 1
 * (default) is right for every chip; 0 is for chips without one, and saves that code.
 */
#ifndef DTN_DATA_CACHE
#define DTN_DATA_CACHE 1
#endif

/** Caller-owned memory, aligned to 16 bytes. */
typedef struct {
    void *data;
    uint32_t bytes;
} dtn_memory_t;

/** Subject of an event. */
enum {
    DTN_EVENT_COPY_IN = 0,  /**< index: input of the program */
    DTN_EVENT_STEP = 1,     /**< index: step */
    DTN_EVENT_COPY_OUT = 2, /**< index: output of the program */
#if DTN_PROFILING
    DTN_EVENT_COMMAND = 3,   /**< index: command of the partition that the next DTN_EVENT_STEP ran */
    DTN_EVENT_DRIVER = 4,    /**< the driver's run of that partition; index: its number of commands */
    DTN_EVENT_RECORDING = 5, /**< conversion of the driver's records to events; index: step */
    DTN_EVENT_NPU = 6,       /**< of the partition that the next DTN_EVENT_STEP ran, from `dtn_port_npu_cycles`, not in
                                ticks; index: step */
    DTN_EVENT_COUNTER = 7,   /**< the same from `dtn_port_npu_counter`; its event number is above the kind's 8 bits */
#endif
};

/** A span of time, in ticks of `dtn_port_ticks`. */
typedef struct {
    uint32_t kind;
    uint32_t index;
    uint32_t start;
    uint32_t stop;
} dtn_event_t;

/** Binding of an input or output to the caller's buffer: caller-owned memory with private fields. */
typedef struct dtn_binding {
    struct dtn_binding *next;
    const dtn_value_t *value;
    void *data;
    bool is_written;
} dtn_binding_t;

/** One prepared program. The caller may set only `events` and `event_capacity`, and only between runs. */
typedef struct {
    const dtn_bundle_t *bundle; /**< NULL after a failed init */
    const dtn_memory_t *memories;
    dtn_event_t *events; /**< NULL, the state after init, records none */
    uint32_t event_capacity;
    uint32_t event_count; /**< events of the last run up to the capacity */
    uint32_t step;        /**< completed steps of the last run: after an error of a step, its number */
    bool is_stepped;      /**< `dtn_executor_start` has started an unfinished run */
    dtn_binding_t *bindings;
    uint8_t *contexts; /**< NULL: at the start of the working memory */
#if DTN_PROFILING
    uint32_t event_lost; /**< events of the last run beyond the capacity */
    uint32_t run_start;  /**< ticks at the start of the last run */
    uint32_t run_stop;   /**< and at its end */
#endif
} dtn_executor_t;

/**
 * Checks a bundle completely, prepares its delegates, and binds it to its memories.
 *
 * `neutronInit` must have been called. After an error nothing of the bundle runs, and the executor returns errors.
 *
 * @param executor the executor to fill.
 * @param bundle stays in use, including everything it points to.
 * @param memories one per `bundle->memory_bytes`, at least that large, aligned to 16, not overlapping; stays in use.
 * With a data cache, each must start and end at a cache line, so that it shares no line with other data. The executor
 * owns their content from now on. Programs that run one after the other may share all memories but that of a state and
 * the last one, the working memory (`dtn_executor_init_shared` is for the latter).
 * @return ENONE, a reason of deuteron/errors.h, or an error of a delegate's NPU.
 */
NeutronError dtn_executor_init(dtn_executor_t *executor, const dtn_bundle_t *bundle, const dtn_memory_t *memories);

/**
 * `dtn_executor_init` for programs that share all memories but that of a state: what NPUs keep between runs is in
 * `contexts`.
 *
 * Only one of two programs that share a memory may run at a time. While one is in use, the other must neither run nor
 * be prepared: from the writing of its inputs, by its run, its `dtn_executor_start` or its caller, until its outputs
 * are read. `dtn_executor_init_shared` and `dtn_executor_deinit` of one do not change the other's contexts. Weights
 * that a program of one partition would keep in its working memory between runs are fetched again in each run.
 *
 * @param memories as for `dtn_executor_init`; each but that of a state may be shared with another program. The first
 * `DTN_CONTEXT_BYTES * bundle->delegate_count` bytes of the last, the working memory, are not used.
 * @param contexts at least that many bytes, not shared, aligned to 16. The structure is copied.
 */
NeutronError dtn_executor_init_shared(dtn_executor_t *executor, const dtn_bundle_t *bundle,
                                      const dtn_memory_t *memories, const dtn_memory_t *contexts);

/**
 * Runs the program once.
 *
 * @param inputs one pointer per input, of any alignment, copied by `dtn_io_copy_start` into the program's memory; NULL
 *               for an input that is already there (`dtn_executor_input`), or instead of the array if all are.
 * @param outputs one pointer per output to copy to; NULL for one that the caller reads in place, or for all.
 * @return ENONE; DTN_REASON_IO_COPY, or DTN_REASON_IO_BUSY if another run uses the port's copies and this one may be
 * retried; the detail is the index among inputs, then outputs. DTN_REASON_ABORTED (`dtn_set_progress`); its detail is 0
 * between steps and the last command in a partition. DTN_REASON_STATE_LOST, see below. Or the error of a delegate's
 * NPU; its step is `executor->step`. Outputs are undefined after an error; without state, the next run is not affected.
 */
NeutronError dtn_executor_run(dtn_executor_t *executor, const void *const *inputs, void *const *outputs);

/**
 * @name A run in steps, for cooperative schedulers
 * `dtn_executor_run` equals a start, all steps, and a finish:
 *
 *     error = dtn_executor_start(&executor, inputs);
 *     while (error == ENONE && dtn_executor_steps_left(&executor) != 0) {
 *         error = dtn_executor_step(&executor);
 *     }
 *     error = error == ENONE ? dtn_executor_finish(&executor, outputs) : error;
 *
 * Between these calls the application may do anything that does not access the executor's memories: another program
 * that shares one of them must run before the start or after the finish. `dtn_executor_start`, `dtn_executor_run` and
 * `dtn_executor_deinit` abandon an unfinished run.
 * @{
 */

/** Starts a run: copies the inputs, as `dtn_executor_run` does. */
NeutronError dtn_executor_start(dtn_executor_t *executor, const void *const *inputs);

/** Steps that the started run has left; 0 without one, and after an error. */
uint32_t dtn_executor_steps_left(const dtn_executor_t *executor);

/** Runs the next step: one operator, one partition of an NPU, or the change of the state. DTN_REASON_RUN_STATE if none
 * is left; any other error ends the run. */
NeutronError dtn_executor_step(dtn_executor_t *executor);

/** Copies the outputs, as `dtn_executor_run` does, and ends the run. DTN_REASON_RUN_STATE while steps are left, or
 * without a run. After DTN_REASON_IO_BUSY or DTN_REASON_IO_COPY it may be called again. */
NeutronError dtn_executor_finish(dtn_executor_t *executor, void *const *outputs);

/** @} */

/** Address of input `index` in the program's memory, for callers that write it there; the run may reuse the memory:
 * write it again before each run. NULL if there is no such input, or init failed. */
void *dtn_executor_input(const dtn_executor_t *executor, uint32_t index);

/** Address of output `index` after a run, valid until an input of the next run is written, which may share the memory;
 * NULL as above. */
const void *dtn_executor_output(const dtn_executor_t *executor, uint32_t index);

/** Address of value `index` of the bundle: an input, an output, an intermediate value or a constant, which must not be
 * written; NULL as above. It holds the value from the step that writes it to the first that reuses its memory. */
void *dtn_executor_value(const dtn_executor_t *executor, uint32_t index);

/**
 * @name Inputs and outputs in buffers of the caller's
 * The program then reads an input, or writes an output, in the caller's buffer, such as one of two camera frames, and
 * nothing is copied. Pass NULL for it to `dtn_executor_run`, which would otherwise copy. `dtn_executor_input` and
 * `dtn_executor_output` return the buffer.
 *
 * Bindings are created and changed between runs. A buffer must be aligned to 16 and, with a data cache, start and end
 * at a cache line, as memories must. It must not overlap the executor's memories or, if a step writes it, a constant or
 * another bound buffer. The caller owns its content: no step writes a bound input.
 *
 * DTN_REASON_BUFFER_SHARED means that the value cannot move. It is a constant, an input that a step changes, or a value
 * that the program also accesses through another value, such as row by row. Or it is in the scratch of an NPU's
 * partition, which `--io-in-scratch never` disables. Other values that only reuse its bytes while it is dead do not
 * matter.
 * @{
 */

/**
 * Binds input `index` to a buffer, replacing an earlier binding.
 *
 * @param binding must last as long as the input is bound.
 * @param bytes of the buffer, at least those of the input.
 * @return ENONE; otherwise nothing changes: DTN_REASON_NULL_POINTER, _MISALIGNED, _TENSOR_INDEX, _BUFFER_SIZE,
 *         _BUFFER_OVERLAP, _BUFFER_SHARED, or _RUN_STATE during a run in steps.
 */
NeutronError dtn_executor_bind_input(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                     size_t bytes);

/** Binds output `index`, as above. */
NeutronError dtn_executor_bind_output(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                      size_t bytes);

/** Moves the input or output back into the program's memory. Ignores a binding that is not in use. */
NeutronError dtn_executor_unbind(dtn_executor_t *executor, const dtn_binding_t *binding);

/** @} */

/**
 * @name State
 * The state of a program lasts from one run to the next: it is in a memory that only this program uses, one of those
 * of `dtn_executor_init`, which sets the initial values. The generated header names it (`SYMBOL_STATE_MEMORY`). Two
 * executors of one program have separate states if they have separate memories.
 *
 * A run that fails leaves the state as it was before the run: the last steps change the state, all at once, and cannot
 * fail. That includes runs that an NPU's error or `dtn_set_progress` ends, and unfinished runs in steps that another
 * start abandons. One error comes after the run: that of an output's copy (`executor->step` equals
 * `bundle->step_count`). The state is then that after the run: do not repeat it, and read the outputs in place
 * (`dtn_executor_output`).
 *
 * If the processor is reset during the change, and the memory keeps its content, each run ends with
 * DTN_REASON_STATE_LOST until `dtn_executor_reset` or `dtn_executor_load_state`.
 *
 * @{
 */

/** Sets the initial state, and abandons an unfinished run. Does nothing for a program without state. */
NeutronError dtn_executor_reset(dtn_executor_t *executor);

/** Address of the tensors of the state, one after the other, and their bytes; NULL and 0 without state, or if init
 * failed. During a run in steps they are those before the run: its last step changes them. */
void *dtn_executor_state(const dtn_executor_t *executor, uint32_t *bytes);

/** Bytes of a saved state: those of all its tensors and a header of 16 bytes; 0 for a program without state. */
uint32_t dtn_state_bytes(const dtn_bundle_t *bundle);

/**
 * Saves the state between runs.
 *
 * @param data of any alignment; its first `dtn_state_bytes` bytes are written. They do not depend on addresses: another
 *             executor of the same bundle can load them, also on another machine.
 * @return ENONE; DTN_REASON_NULL_POINTER, _STATE_SIZE, _STATE_LOST, _STATE_SAVED for a program without state, or
 *         _RUN_STATE during a run in steps.
 */
NeutronError dtn_executor_save_state(const dtn_executor_t *executor, void *data, size_t bytes);

/** Loads a saved state between runs. DTN_REASON_STATE_SAVED, and no change, if it is damaged or of another bundle;
 * other errors as above. */
NeutronError dtn_executor_load_state(dtn_executor_t *executor, const void *data, size_t bytes);

/** @} */

/** Releases all delegates' contexts; returns the first error, if one of them was overwritten. */
NeutronError dtn_executor_deinit(dtn_executor_t *executor);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_EXECUTOR_H */
