/**
 * @file
 * The runner's command line, see runner.h.
 */
#ifndef DTN_OPTIONS_H
#define DTN_OPTIONS_H

#include <stdint.h>

#include "deuteron/executor.h"
#include "heap.h"

/** Exit statuses of the runner. */
enum { DTN_EXIT_OK = 0, DTN_EXIT_FAILED = 1, DTN_EXIT_USAGE = 2 };

/** The options; names are NULL if they are not given. */
typedef struct {
    const char **inputs;
    const char **outputs;
    const char *events;
    const char *fault;
    const char *resets;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t runs;
    uint32_t flash_latency_ns;
    uint32_t flash_bytes_per_second;
#if DTN_PROFILING
    const char *profile;
    uint32_t event_capacity; /* 0 for as many as fit into memory */
#endif
} dtn_options_t;

/** Reads the command line into memory of the heap; ends the program with a message if it is wrong. */
void dtn_options_read(dtn_options_t *options, dtn_heap_t *heap);

/** Prints `error: `, the texts, and the end of the line, and ends the program with DTN_EXIT_USAGE. */
__attribute__((noreturn)) void dtn_usage_error(const char *what, const char *name);

#endif /* DTN_OPTIONS_H */
