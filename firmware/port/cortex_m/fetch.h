/**
 * @file
 * The hooks of `dtn_set_fetch_hooks` for the boards under `port/`: fetches of weights by DMA, with the time that a
 * flash would take. They serve one run at a time (deuteron/driver.h, Concurrency), and refuse to work with interrupts
 * off.
 *
 * These boards' memories answer at once. A timer stands in for the flash: a fetch's copy starts when a flash with the
 * set latency and rate would have given its last byte. The flash serves one fetch after the other, in the order in
 * which they were started; the core works or sleeps meanwhile.
 */
#ifndef DTN_FETCH_H
#define DTN_FETCH_H

#include <stdint.h>

#include "NeutronDriver.h"

/** Time that a fetch takes beyond the flash's before `wait` gives up, in milliseconds. */
#ifndef DTN_FETCH_TIMEOUT_MS
#define DTN_FETCH_TIMEOUT_MS 100
#endif

/**
 * Installs the hooks. Not during a run.
 *
 * @param latency_ns time until the flash gives the first byte of a fetch.
 * @param bytes_per_second rate of the flash after that; 0 for one that needs no time for them.
 */
NeutronError dtn_fetch_install(uint32_t latency_ns, uint32_t bytes_per_second);

#endif /* DTN_FETCH_H */
