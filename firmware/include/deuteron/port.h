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

/** Reads the NPU's own counter of cycles, for profiles (DTN_PROFILING), which never mix them with ticks; false when
 * there is none now. It runs up and wraps at 2^32, and is read before and after each partition's step, when the caller
 * wants events: of runs that share the NPU, what one counts in a step holds what others did with it meanwhile. A port
 * need not have it. One that has must be linked as an object, or from an archive with
 * `-Wl,-u,dtn_port_npu_cycles` before that: the executor's reference is weak, and a linker takes nothing from an
 * archive for one. */
bool dtn_port_npu_cycles(uint32_t *cycles);

/** Counters beside that of cycles that are read at most. */
#define DTN_NPU_COUNTERS 8

/** Reads another of the NPU's own counters, of whatever the port has set it to count: beats on a bus, cycles in which
 * it multiplies; false when there is no counter `index`, after which none is asked for. `what` gets the number that the
 * NPU's manual has for what it counts, below 2^24. For the rest as `dtn_port_npu_cycles`. */
bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count);

/** Starts (true) or stops the NPU's clock. */
void dtn_port_clock(bool on);

/** Writes back to memory every line of the core's data cache that holds one of these bytes and is dirty, before a DMA
 * or the NPU reads them or writes there. Called by the executor round each step of an NPU (DTN_DATA_CACHE) and by a
 * port's own copies. */
void dtn_port_cache_clean(const void *data, size_t bytes);

/** Drops every line of the core's data cache that holds one of these bytes, after a DMA or the NPU wrote them. Called
 * as above, when all these lines have been cleaned and nothing but the DMA or NPU has written to them since: what the
 * core has written to another byte of a line would be lost. */
void dtn_port_cache_invalidate(void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_PORT_H */
