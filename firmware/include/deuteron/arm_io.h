/**
 * @file
 * Lets ExecuTorch's unmodified Ethos-U delegate copy through the hooks of deuteron/io.h.
 *
 * That delegate copies its inputs and outputs by a weak function without result, `arm_ethos_io_memcpy`. This strong
 * definition uses `dtn_io_copy_start` and `dtn_io_copy_wait`. A failed copy is recorded: the next `ethosu_invoke_v3` on
 * the same memory fails before anything runs, and the delegate returns an error. A failed copy of the last inference's
 * outputs is reported only by `dtn_arm_io_failed`. Inferences of other threads, which have other memory, are not
 * affected. After more than 8 unreported failures, every inference fails until `dtn_arm_io_failed` is called.
 *
 * Link arm_ethos_io_memcpy.c as an object and with `-Wl,--wrap=ethosu_invoke_v3`, without which it does not link: a
 * linker silently keeps the delegate's weak function if this one is in an archive after the delegate's. In CMake,
 * `deuteron_add_arm_io_copy` does this and checks the image. It works with any driver with Arm's API.
 */
#ifndef DEUTERON_ARM_IO_H
#define DEUTERON_ARM_IO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Copies for ExecuTorch's delegate; on return the copy is complete, or it has failed. */
void arm_ethos_io_memcpy(void *dst, const void *src, size_t size);

/** Returns true if a copy of any thread failed since the last call or the last report by `ethosu_invoke_v3`, and clears
 * it. Call it between inferences: after the copies of inputs it would hide a failure from their inference. */
bool dtn_arm_io_failed(void);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ARM_IO_H */
