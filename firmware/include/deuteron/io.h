/**
 * @file
 * The copies of a program's inputs and outputs, which a port may give to a DMA.
 *
 * All three functions have weak defaults, in one translation unit of their own so that no caller can have them inlined.
 * Overriding `dtn_io_copy` alone is enough for a DMA that is waited for at once; the pair lets the core sleep or work
 * meanwhile; it overrides both. An override must be linked as an object, or from an archive before this library with
 * `-Wl,-u,dtn_io_copy_start`, or another hook that it defines, before that: a linker takes the weak default in silence
 * otherwise, which `deuteron firmware` checks for.
 *
 * They carry the inputs and outputs of programs, those of partitions whose NPU has tensors in memory of its own, and
 * the tensors that our delegates for ExecuTorch's runtime do not use where they are: a Neutron's that is transposed is
 * copied to the scratch memory first. Nothing else in the firmware calls these functions: memcpy, and the weights'
 * fetches (`dtn_set_fetch_hooks`), are left alone.
 */
#ifndef DEUTERON_IO_H
#define DEUTERON_IO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Nothing was started, because the copy that a port makes at a time is another's: on another thread, or under way. */
#define DTN_IO_BUSY 1

/**
 * Copies `size` bytes between buffers that do not overlap, of any alignment, and returns when they are there: visible
 * to the core and the NPU.
 *
 * @return 0, DTN_IO_BUSY, or any other value when the copy failed or took too long; nothing goes on copying then.
 */
int32_t dtn_io_copy(void *dst, const void *src, size_t size);

/** Starts such a copy; at most one is under way at a time (deuteron/driver.h, Concurrency). By default it is done on
 * return, by `dtn_io_copy`. */
int32_t dtn_io_copy_start(void *dst, const void *src, size_t size);

/** Returns when the copy that was started is done; as `dtn_io_copy` otherwise. */
int32_t dtn_io_copy_wait(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_IO_H */
