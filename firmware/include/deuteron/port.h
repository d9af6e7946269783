/**
 * @file
 * The driver's interface to a platform. `port/template` is a starting point, `port/host` serves tests and hosts.
 * Section Concurrency of deuteron/driver.h defines what may be called concurrently.
 */
#ifndef DEUTERON_PORT_H
#define DEUTERON_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Prepares clocks and the tick counter; returns false on failure. Called by the first `neutronInit`. */
bool dtn_port_init(void);

/** Undoes `dtn_port_init`. Called by the last `neutronDeinit`. */
void dtn_port_deinit(void);

/** Memory for a model context, aligned to 16 bytes, or NULL. A port without a heap returns NULL: callers then pass
 * memory. */
void *dtn_port_alloc(size_t size);

/** Frees memory of `dtn_port_alloc`. */
void dtn_port_free(void *memory);

/** A counter that counts up and wraps at 2^32; profile records contain it. The host port counts nanoseconds. */
uint32_t dtn_port_ticks(void);

/** Reads the NPU's own cycle counter, for profiles (DTN_PROFILING), which never mix it with ticks; returns false if
 * there is none now. It counts up, wraps at 2^32, and is read before and after each partition's step if the caller
 * wants events: for runs that share the NPU, a step's count includes other runs' work meanwhile. This function is
 * optional. A port that has it must link it as an object, or from an archive with `-Wl,-u,dtn_port_npu_cycles` before
 * that: the executor's reference is weak, and linkers load no archive member for a weak reference. */
bool dtn_port_npu_cycles(uint32_t *cycles);

/** Maximum number of counters besides the cycle counter. */
#define DTN_NPU_COUNTERS 8

/** Reads another of the NPU's own counters, of any event that the port has set, such as bus beats; returns false if
 * there is no counter `index`, after which no higher one is read. `what` gets the NPU manual's number of the event,
 * below 2^24. Otherwise as `dtn_port_npu_cycles`. */
bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count);

/** Starts (true) or stops the NPU's clock. */
void dtn_port_clock(bool on);

/** Writes every dirty line of the core's data cache that contains one of these bytes back to memory, before a DMA or
 * the NPU reads them or writes there. Called by the executor around each step of an NPU (DTN_DATA_CACHE) and by a
 * port's own copies. */
void dtn_port_cache_clean(const void *data, size_t bytes);

/** Invalidates every line of the core's data cache that contains one of these bytes, after a DMA or the NPU wrote them.
 * Called as above, when all these lines have been cleaned and only the DMA or NPU has written to them since: the core's
 * writes to other bytes of a line would be lost. */
void dtn_port_cache_invalidate(void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_PORT_H */
