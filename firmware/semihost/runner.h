/**
 * @file
 * The runner: an application that runs a bundle on files of the host. `src/deuteron/board/` starts it and reads its
 * files.
 *
 * Command line, words separated by spaces, so that names must not contain spaces; the first word is ignored:
 *
 *   --input FILE              the bytes of an input, for run 0, then for run 1, ...; once per input, in order
 *   --output FILE             written: the bytes of an output after each successful run; once per output, in order
 *   --events FILE             written: events, see below
 *   --runs N                  number of runs; default 1
 *   --resets FILE             a byte per run: the state is reset before each run whose byte is not 0; default never
 *   --flash-latency-ns N      time until the flash delivers the first byte of a fetch; default 0
 *   --flash-bytes-per-second N  rate of a fetch after that; default unlimited
 *   --fault WHAT              for images with fault injection (fault_injection.h)
 *   --profile FILE            for images with DTN_PROFILING; written: a packet of events per run (deuteron/profile.h)
 *   --event-capacity N        with --profile: maximum events of a run; default all free memory
 *
 * Inputs or outputs may be omitted altogether: their memory is then not written, or not read.
 *
 * Exit status: 0 all runs succeeded; 1 the bundle was rejected or a run failed (later runs still run); 2 the command
 * line or a file is wrong; 3 a fault of the processor. The reason is on the console, on a line that starts with `error:
 * ` or `fault: `.
 *
 * The events file is words of 32 bits, little-endian: `dtn_runner_header_t`, then for each run a `dtn_harness_run_t`
 * (deuteron/harness.h) and its number of `dtn_event_t` (deuteron/executor.h). There is none if the bundle was rejected.
 */
#pragma once

#include <stdint.h>

#include "prepare.h"

#define DTN_RUNNER_MAGIC UINT32_C(0x454E5444) /**< bytes `DTNE` */
#define DTN_RUNNER_VERSION UINT32_C(2)

/** Start of the events file. */
typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t ticks_hz;    /**< rate of all ticks here */
    uint32_t init_ticks;  /**< ticks of `dtn_executor_init` */
    uint32_t stack_bytes; /**< size of the stack */
    uint32_t runs;
} dtn_runner_header_t;
