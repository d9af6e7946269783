/**
 * @file
 * The copies of ExecuTorch's own Ethos-U delegate, unmodified, by the hooks of deuteron/io.h.
 *
 * That delegate copies its inputs and outputs by a weak function, `arm_ethos_io_memcpy`, which returns nothing. Here it
 * is a strong one over `dtn_io_copy_start` and `dtn_io_copy_wait`. A copy that fails is remembered, and lets the next
 * `ethosu_invoke_v3` on the same memory fail before anything runs, which that delegate turns into an error; of a failed
 * copy of the last inference's outputs only `dtn_arm_io_failed` tells at once. Inferences of other threads, which have
 * other memory, go on. After more than 8 failures of which nothing has told, every inference fails until
 * `dtn_arm_io_failed` is called.
 *
 * Link arm_ethos_io_memcpy.c as an object and with `-Wl,--wrap=ethosu_invoke_v3`, without which it does not link: a
 * linker takes the delegate's weak function in silence when this one stands in an archive behind the delegate's. In
 * CMake `deuteron_add_arm_io_copy` does all of that, and checks the image. Any driver with Arm's API may stand below.
 */
#ifndef DEUTERON_ARM_IO_H
#define DEUTERON_ARM_IO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Copies as ExecuTorch's delegate wants it; the bytes are there on return, or the copy has failed. */
void arm_ethos_io_memcpy(void *dst, const void *src, size_t size);

/** Whether a copy of any thread has failed since this was called last or an `ethosu_invoke_v3` told; forgets it. Ask
 * between inferences: one that has copied its inputs and not begun would not be told any more. */
bool dtn_arm_io_failed(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ARM_IO_H */
