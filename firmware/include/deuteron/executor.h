/**
 * @file
 * Runs a bundle: the CPU operators and the NPU's partitions of a program, in order, in memory that the caller owns.
 * What may happen at the same time is said in deuteron/driver.h, section Concurrency.
 */
#ifndef DEUTERON_EXECUTOR_H
#define DEUTERON_EXECUTOR_H

#include <stdbool.h>
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
 * this one must be compiled with the same value.
 */
#ifndef DTN_PROFILING
#define DTN_PROFILING 0
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

/** One prepared program. Only `events` and `event_capacity` are the caller's to set, and between runs only. */
typedef struct {
    const dtn_bundle_t *bundle; /**< NULL after a failed init */
    const dtn_memory_t *memories;
    dtn_event_t *events; /**< NULL, the state after init: none are recorded */
    uint32_t event_capacity;
    uint32_t event_count; /**< of the last run; events beyond the capacity are not recorded and not counted */
    uint32_t step;        /**< steps that the last run finished: after an error of a step, its number */
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
 * memory, as long as they run one after the other.
 * @return ENONE, a reason of deuteron/errors.h, or what the NPU of a delegate says of it.
 */
NeutronError dtn_executor_init(dtn_executor_t *executor, const dtn_bundle_t *bundle, const dtn_memory_t *memories);

/**
 * Runs the program once.
 *
 * @param inputs one pointer per input, of any alignment, copied by `dtn_io_copy_start` into the program's memory; NULL
 *               for one that already stands there (`dtn_executor_input`), or in place of the array if all do.
 * @param outputs one pointer per output to copy to; NULL for one that the caller reads in place, or for all.
 * @return ENONE; DTN_REASON_IO_COPY, whose detail counts the inputs, then the outputs; or what the NPU says of a
 *         delegate, whose step is `executor->step` then. Outputs are undefined after an error; the next run is not
 *         affected.
 */
NeutronError dtn_executor_run(dtn_executor_t *executor, const void *const *inputs, void *const *outputs);

/** Where input `index` stands in the program's memory, for callers that write it there; the run may reuse the memory:
 * write it anew for each. NULL when there is no such input, or init failed. */
void *dtn_executor_input(const dtn_executor_t *executor, uint32_t index);

/** Where output `index` stands after a run, until an input is written for the next one, which may lie there, too; NULL,
 * as above, when there is none. */
const void *dtn_executor_output(const dtn_executor_t *executor, uint32_t index);

/** Ends the use of all delegates' contexts; the first error, if one of them was overwritten. */
NeutronError dtn_executor_deinit(dtn_executor_t *executor);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_EXECUTOR_H */
