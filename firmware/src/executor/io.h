/**
 * @file
 * Copies through the port (deuteron/io.h), with a reason for errors.
 */
#ifndef DTN_EXECUTOR_IO_H
#define DTN_EXECUTOR_IO_H

#include "deuteron/errors.h"
#include "deuteron/io.h"

/** Copies and waits; DTN_REASON_IO_BUSY if another run is copying, `failed` for any other failure. */
static inline dtn_reason_t dtn_copy(void *dst, const void *src, uint32_t bytes, dtn_reason_t failed)
{
    int32_t status = dtn_io_copy_start(dst, src, bytes);
    if (status == 0) {
        status = dtn_io_copy_wait();
    }
    return status == 0 ? DTN_OK : status == DTN_IO_BUSY ? DTN_REASON_IO_BUSY : failed;
}

#endif /* DTN_EXECUTOR_IO_H */
