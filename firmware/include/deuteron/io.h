/**
 * @file
 * Copies of a program's inputs and outputs, which a port may give to a DMA.
 *
 * All three functions have weak defaults, in their own translation unit so that no caller can inline them. Overriding
 * `dtn_io_copy` alone suffices for a DMA with an immediate wait; overriding the pair lets the core sleep or work
 * meanwhile, and overrides both. An override must be linked as an object, or from an archive before this library, after
 * `-Wl,-u,dtn_io_copy_start` or another hook that it defines. Otherwise a linker silently keeps the weak default, which
 * `deuteron firmware` detects.
 *
 * They copy the inputs and outputs of programs, those of partitions whose NPU has its own tensor memory, and the
 * tensors that our delegates for ExecuTorch's runtime do not use in place. A Neutron's transposed tensor is copied to
 * the scratch memory first. Nothing else in the firmware calls these functions: memcpy, and the weights' fetches
 * (`dtn_set_fetch_hooks`), do not use them.
 */
#ifndef DEUTERON_IO_H
#define DEUTERON_IO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Nothing was started, because another copy, of another thread or unfinished, uses the port's only channel. */
#define DTN_IO_BUSY 1

/**
 * Copies `size` bytes between buffers that do not overlap, of any alignment, and returns when they are visible to the
 * core and the NPU.
 *
 * @return 0, DTN_IO_BUSY, or another value if the copy failed or timed out; the copy must have stopped.
 */
int32_t dtn_io_copy(void *dst, const void *src, size_t size);

/** Starts such a copy; at most one is outstanding at a time (deuteron/driver.h, Concurrency). By default `dtn_io_copy`
 * completes it before the return. */
int32_t dtn_io_copy_start(void *dst, const void *src, size_t size);

/** Returns when the started copy is complete; otherwise as `dtn_io_copy`. */
int32_t dtn_io_copy_wait(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_IO_H */
