/* Host only: data for the process that loaded the delegate. */
#pragma once

#include <stddef.h>

#define DEUTERON_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* One finished run. All pointers are valid only during the callback. Tensors of a Neutron are in the driver's layout,
 * channels last if the payload requires it; those of an Ethos-U are in the program's layout. */
struct deuteron_delegate_call {
    const void *payload; /* the delegate's whole blob, as in the .pte */
    size_t payload_bytes;
    const void *microcode; /* inside the payload */
    size_t microcode_bytes;
    size_t inputs;
    const void *const *input_data;
    const size_t *input_bytes;
    size_t outputs;
    const void *const *output_data;
    const size_t *output_bytes;
};

/* Each library with a backend has this function for its own runs: calls `fn(ctx, call)` after each successful run, on
 * the thread that runs the program; NULL stops it. Must not be called while a program runs. */
DEUTERON_EXPORT void deuteron_set_observer(void (*fn)(void *ctx, const struct deuteron_delegate_call *call), void *ctx);

/* From now on captures the error lines that ExecuTorch's runtime logs on this thread, instead of showing them, until
 * they are taken; drops those captured before. All other lines, and those of other threads, go to their previous
 * target: standard error, or the application's function that was registered before the first call of this. */
DEUTERON_EXPORT void deuteron_keep_log(void);

/* Copies the lines captured on this thread, each with a line feed, drops them and stops capturing. If they exceed
 * `size` - 1 bytes, the first ones are copied; the result is zero-terminated. Returns their length. */
DEUTERON_EXPORT size_t deuteron_take_log(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
