/**
 * @file
 * What the driver needs from a platform. `port/template` is a place to start, `port/host` serves tests and hosts. What
 * may be called at the same time is said in deuteron/driver.h, section Concurrency.
 */
#ifndef DEUTERON_PORT_H
#define DEUTERON_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Prepares clocks and the tick counter; false when that fails. Called by the first
 * `neutronInit`. */
bool dtn_port_init(void);

/** Undoes `dtn_port_init`. Called by the last `neutronDeinit`. */
void dtn_port_deinit(void);

/** Memory for a model context, aligned to 16 bytes, or NULL. A port without a heap returns NULL: callers then pass
 * memory. */
void *dtn_port_alloc(size_t size);

/** Gives back what `dtn_port_alloc` returned. */
void dtn_port_free(void *memory);

/** A counter that runs up and wraps at 2^32; profile records hold it. The host port counts nanoseconds. */
uint32_t dtn_port_ticks(void);

/** Starts (true) or stops the NPU's clock. */
void dtn_port_clock(bool on);

/** Writes what the core's data cache holds of these bytes back to memory, before a DMA or the NPU reads them. Called by
 * a port's own copies: kernels that run on the core need no help with its cache. The bytes are whole lines where the
 * NPU or a DMA writes to them. */
void dtn_port_cache_clean(const void *data, size_t bytes);

/** Drops what the core's data cache holds of these bytes, after a DMA or the NPU wrote them. Called as above,
 * for whole lines only: other bytes of a line would be lost. */
void dtn_port_cache_invalidate(void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_PORT_H */
