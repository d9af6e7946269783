/**
 * @file
 * The runner: an application that runs a bundle on files of the host. `src/deuteron/board/` starts it and reads what it
 * writes.
 *
 * Command line, words separated by spaces, so that no name may contain one; the first word is not looked at:
 *
 *   --input FILE              the bytes of an input, for run 0, then for run 1, ...; once per input, in order
 *   --output FILE             written: the bytes of an output after each run that succeeded; once per output, in order
 *   --events FILE             written: what happened, see below
 *   --runs N                  how often to run; 1 without it
 *   --flash-latency-ns N      time until the flash gives the first byte of a fetch; 0 without it
 *   --flash-bytes-per-second N  rate of a fetch after that; as fast as the copy itself without it
 *   --fault WHAT              for images with fault injection (faults.h)
 *   --profile FILE            for images with DTN_PROFILING; written: a packet of events per run (deuteron/profile.h)
 *   --event-capacity N        with --profile: room for so many events of a run; all memory that is left without it
 *
 * Inputs or outputs may be left out altogether: their memory is not written, or not read, then.
 *
 * Exit status: 0 all runs succeeded; 1 the bundle was refused or a run failed (the runs after it are made); 2 the
 * command line or a file is wrong; 3 a fault of the processor. What went wrong stands on the console, on a line that
 * starts with `error: ` or `fault: `.
 *
 * The events file is words of 32 bits, little-endian: `dtn_runner_header_t`, then for each run a `dtn_runner_run_t` and
 * as many `dtn_event_t` (deuteron/executor.h) as it says. There is none when the bundle was refused.
 */
#ifndef DTN_RUNNER_H
#define DTN_RUNNER_H

#include <stdint.h>

#include "deuteron/bundle.h"
#include "deuteron/executor.h"

/** The program and its memories, from the C file that `deuteron firmware` generates. */
extern const dtn_bundle_t dtn_bundle;
extern const dtn_memory_t dtn_bundle_memories[];

#define DTN_RUNNER_MAGIC UINT32_C(0x454E5444) /**< bytes `DTNE` */
#define DTN_RUNNER_VERSION UINT32_C(1)

/** Start of the events file. */
typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t ticks_hz;    /**< rate of all ticks here */
    uint32_t init_ticks;  /**< what `dtn_executor_init` took */
    uint32_t stack_bytes; /**< what the stack may take */
    uint32_t runs;
} dtn_runner_header_t;

/** One run. */
typedef struct {
    uint32_t error;      /**< a NeutronError, 0 for none */
    uint32_t step;       /**< steps that were finished */
    uint32_t ticks;      /**< what `dtn_executor_run` took */
    uint32_t stack_used; /**< most bytes of the stack in use since start-up */
    uint32_t events;
} dtn_runner_run_t;

#endif /* DTN_RUNNER_H */
