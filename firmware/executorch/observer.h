/* Host only: what the process that loaded the delegate can learn from it. */
#ifndef DEUTERON_EXECUTORCH_OBSERVER_H
#define DEUTERON_EXECUTORCH_OBSERVER_H

#include <stddef.h>

#define DEUTERON_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* One finished run. All pointers are valid only during the callback. Tensors of a Neutron are as its driver reads and
 * writes them, already channels last where the payload asks for it; those of an Ethos-U as they lie in the program. */
struct deuteron_delegate_call {
    const void *payload; /* the delegate's whole blob, as it lies in the .pte */
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

/* Each library with a backend has this, for its own runs: calls `fn(ctx, call)` after each successful run, on the
 * thread that runs the program; NULL stops it. Not to be called while a program runs. */
DEUTERON_EXPORT void deuteron_set_observer(void (*fn)(void *ctx, const struct deuteron_delegate_call *call), void *ctx);

/* From now on keeps the error lines that ExecuTorch's runtime logs on this thread, instead of showing them, until they
 * are taken; forgets those kept before. All other lines, and all of other threads, go where they went before: to
 * standard error, or what the application has registered until the first call of this. */
DEUTERON_EXPORT void deuteron_keep_log(void);

/* Copies the lines that this thread has kept, each with a line feed, forgets them and keeps no more. Of more than
 * `size` - 1 bytes the first are given; the result ends with a zero byte. Returns their length. */
DEUTERON_EXPORT size_t deuteron_take_log(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
