/**
 * @file
 * Runs a bundle: the CPU operators and the NPU's partitions of a program, in order, in memory that the caller owns.
 * What may happen at the same time is said in deuteron/driver.h, section Concurrency.
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
 * Whether the executor tells of what is inside a step. 0 (default) adds nothing to an image; 1 adds an event of 16
 * bytes for each command of a partition, if its microcode was built with profiling. All files of an image that include
 * this one must be compiled with the same value: an application does not link with a library of the other one, since
 * the names of its functions that prepare a program differ.
 */
#ifndef DTN_PROFILING
#define DTN_PROFILING 0
#endif
#if DTN_PROFILING
#define dtn_executor_init dtn_executor_init_with_profiling
#define dtn_executor_init_shared dtn_executor_init_shared_with_profiling
#endif

/**
 * Whether the core has a data cache, which the executor then cleans and drops round each step of an NPU. 1 (default) is
 * right for every chip; 0 is for those without one, and saves that code.
 */
#ifndef DTN_DATA_CACHE
#define DTN_DATA_CACHE 1
#endif

/** Memory that the caller gives, aligned to 16 bytes. */
typedef struct {
    void *data;
    uint32_t bytes;
} dtn_memory_t;

/** What an event is about. */
enum {
    DTN_EVENT_COPY_IN = 0,  /**< index: input of the program */
    DTN_EVENT_STEP = 1,     /**< index: step */
    DTN_EVENT_COPY_OUT = 2, /**< index: output of the program */
#if DTN_PROFILING
    DTN_EVENT_COMMAND = 3,   /**< index: command of the partition that the next DTN_EVENT_STEP ran */
    DTN_EVENT_DRIVER = 4,    /**< the driver's run of that partition; index: its number of commands */
    DTN_EVENT_RECORDING = 5, /**< making these events of the driver's records; index: step */
    DTN_EVENT_NPU = 6,       /**< of the partition that the next DTN_EVENT_STEP ran, by `dtn_port_npu_cycles`, not in
                                ticks; index: step */
    DTN_EVENT_COUNTER = 7,   /**< the same by `dtn_port_npu_counter`; what it counts stands above the kind's 8 bits */
#endif
};

/** A span of time, in ticks of `dtn_port_ticks`. */
typedef struct {
    uint32_t kind;
    uint32_t index;
    uint32_t start;
    uint32_t stop;
} dtn_event_t;

/** An input or output that lies in a buffer of the caller's: memory of the caller's, whose fields are the executor's.
 */
typedef struct dtn_binding {
    struct dtn_binding *next;
    const dtn_value_t *value;
    void *data;
    bool is_written;
} dtn_binding_t;

/** One prepared program. Only `events` and `event_capacity` are the caller's to set, and between runs only. */
typedef struct {
    const dtn_bundle_t *bundle; /**< NULL after a failed init */
    const dtn_memory_t *memories;
    dtn_event_t *events; /**< NULL, the state after init: none are recorded */
    uint32_t event_capacity;
    uint32_t event_count; /**< of the last run; events beyond the capacity are not recorded and not counted */
    uint32_t step;        /**< steps that the last run finished: after an error of a step, its number */
    bool is_stepped;      /**< `dtn_executor_start` has begun a run that is not over */
    dtn_binding_t *bindings;
    uint8_t *contexts; /**< NULL: at the start of the working memory */
#if DTN_PROFILING
    uint32_t event_lost; /**< events of the last run beyond the capacity */
    uint32_t run_start;  /**< ticks, when the last run started */
    uint32_t run_stop;   /**< and stopped */
#endif
} dtn_executor_t;

/**
 * Checks a bundle completely, prepares its delegates, and binds it to its memories.
 *
 * `neutronInit` must have been called. On an error nothing of the bundle runs, and the executor refuses to.
 *
 * @param executor filled.
 * @param bundle stays in use, as does everything it points to.
 * @param memories one per `bundle->memory_bytes`, at least that large, aligned to 16, none overlapping another; stays
 * in use. Beside a data cache, each must start and end with a line of it, so that no other data lies in one. Their
 * content is the executor's from now on; several programs may share all but the last one, the working
 * memory, as long as they run one after the other (`dtn_executor_init_shared` is for all).
 * @return ENONE, a reason of deuteron/errors.h, or what the NPU of a delegate says of it.
 */
NeutronError dtn_executor_init(dtn_executor_t *executor, const dtn_bundle_t *bundle, const dtn_memory_t *memories);

/**
 * `dtn_executor_init` for programs that share all their memories: what has to last between runs lies in `contexts`.
 *
 * Of two programs that share a memory one runs at a time: from the moment when the inputs of one are written, by its
 * run, its `dtn_executor_start` or its caller, until its outputs are read, the other neither runs nor is prepared.
 * `dtn_executor_init_shared` and `dtn_executor_deinit` of one leave the other's contexts alone. Weights that a program
 * of one partition keeps in its working memory between runs otherwise are fetched again by each run.
 *
 * @param memories as of `dtn_executor_init`; each may be another program's, too. Of the last, the working memory, the
 *                 first `DTN_CONTEXT_BYTES * bundle->delegate_count` bytes are not used.
 * @param contexts at least that many bytes of this executor's own, aligned to 16. The structure is copied.
 */
NeutronError dtn_executor_init_shared(dtn_executor_t *executor, const dtn_bundle_t *bundle,
                                      const dtn_memory_t *memories, const dtn_memory_t *contexts);

/**
 * Runs the program once.
 *
 * @param inputs one pointer per input, of any alignment, copied by `dtn_io_copy_start` into the program's memory; NULL
 *               for one that already stands there (`dtn_executor_input`), or in place of the array if all do.
 * @param outputs one pointer per output to copy to; NULL for one that the caller reads in place, or for all.
 * @return ENONE; DTN_REASON_IO_COPY, or DTN_REASON_IO_BUSY when another run has the port's copies and this one may be
 *         tried again, whose detail counts the inputs, then the outputs; DTN_REASON_ABORTED (`dtn_set_progress`), whose
 *         detail is 0 between steps and the last command in a partition; or what the NPU says of a
 *         delegate, whose step is `executor->step` then. Outputs are undefined after an error; the next run is not
 *         affected.
 */
NeutronError dtn_executor_run(dtn_executor_t *executor, const void *const *inputs, void *const *outputs);

/**
 * @name A run in steps, for cooperative schedulers
 * `dtn_executor_run` is a start, steps until none is left, and a finish:
 *
 *     error = dtn_executor_start(&executor, inputs);
 *     while (error == ENONE && dtn_executor_steps_left(&executor) != 0) {
 *         error = dtn_executor_step(&executor);
 *     }
 *     error = error == ENONE ? dtn_executor_finish(&executor, outputs) : error;
 *
 * Between these calls the application may do anything that leaves the executor's memories alone: another program that
 * shares one of them runs before the start or after the finish. `dtn_executor_start`, `dtn_executor_run` and
 * `dtn_executor_deinit` give up a run that is not over.
 * @{
 */

/** Starts a run: copies the inputs, as `dtn_executor_run` does. */
NeutronError dtn_executor_start(dtn_executor_t *executor, const void *const *inputs);

/** Steps that the started run has left; 0 without one, and after an error. */
uint32_t dtn_executor_steps_left(const dtn_executor_t *executor);

/** Runs the next step: one operator, or one partition of an NPU. DTN_REASON_RUN_STATE when none is left; after any
 * other error the run is over. */
NeutronError dtn_executor_step(dtn_executor_t *executor);

/** Copies the outputs, as `dtn_executor_run` does, and ends the run. DTN_REASON_RUN_STATE while steps are left, or
 * without a run. After DTN_REASON_IO_BUSY or DTN_REASON_IO_COPY it may be called again. */
NeutronError dtn_executor_finish(dtn_executor_t *executor, void *const *outputs);

/** @} */

/** Where input `index` stands in the program's memory, for callers that write it there; the run may reuse the memory:
 * write it anew for each. NULL when there is no such input, or init failed. */
void *dtn_executor_input(const dtn_executor_t *executor, uint32_t index);

/** Where output `index` stands after a run, until an input is written for the next one, which may lie there, too; NULL,
 * as above, when there is none. */
const void *dtn_executor_output(const dtn_executor_t *executor, uint32_t index);

/**
 * @name Inputs and outputs in buffers of the caller's
 * The program then reads an input, or writes an output, where the caller has it, such as in one of two frames that a
 * camera fills by turns, and nothing is copied: give NULL for it to `dtn_executor_run`, which would copy otherwise.
 * `dtn_executor_input` and `dtn_executor_output` give the buffer.
 *
 * Bindings are made and changed between runs. A buffer must be aligned to 16 and beside a data cache, as memories are,
 * start and end with a line of it. It must not overlap the executor's memories or, if a step writes it, a constant or
 * another bound buffer. Its content is the caller's: no step writes a bound input.
 *
 * DTN_REASON_BUFFER_SHARED says that the value has to stay where it is: it is a constant, an input that a step changes,
 * one that the program also reads or writes under another name, such as row by row, or it lies in the scratch of an
 * NPU's partition (`--io-in-scratch never` builds without that). Other values that only use its bytes while it is not
 * needed do not matter.
 * @{
 */

/**
 * Binds input `index` to a buffer, in place of one that it was bound to before.
 *
 * @param binding must last as long as the input is bound.
 * @param bytes of the buffer, at least those of the input.
 * @return ENONE; otherwise nothing has changed: DTN_REASON_NULL_POINTER, _MISALIGNED, _TENSOR_INDEX, _BUFFER_SIZE,
 *         _BUFFER_OVERLAP, _BUFFER_SHARED, or _RUN_STATE during a run in steps.
 */
NeutronError dtn_executor_bind_input(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                     size_t bytes);

/** Binds output `index`, as above. */
NeutronError dtn_executor_bind_output(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                      size_t bytes);

/** Puts the input or output back into the program's memory. A binding that is not in use is none to complain of. */
NeutronError dtn_executor_unbind(dtn_executor_t *executor, const dtn_binding_t *binding);

/** @} */

/** Ends the use of all delegates' contexts; the first error, if one of them was overwritten. */
NeutronError dtn_executor_deinit(dtn_executor_t *executor);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_EXECUTOR_H */
