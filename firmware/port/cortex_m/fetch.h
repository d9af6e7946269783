/**
 * @file
 * The hooks of `dtn_set_fetch_hooks` for the boards under `port/`: fetches of weights by DMA, with the timing of a
 * flash. They serve one run at a time (deuteron/driver.h, Concurrency), and reject calls with interrupts off.
 *
 * These boards' memories respond immediately. A timer simulates the flash: a fetch's copy starts when a flash with the
 * set latency and rate would have delivered its last byte. The flash serves fetches in the order of their starts; the
 * core works or sleeps meanwhile.
 */
#pragma once

#include <stdint.h>

#include "NeutronDriver.h"

/** Time limit of a fetch beyond the flash's time, in milliseconds. */
#ifndef DTN_FETCH_TIMEOUT_MS
#define DTN_FETCH_TIMEOUT_MS 100
#endif

/**
 * Installs the hooks. Must not be called during a run.
 *
 * @param latency_ns time until the flash returns the first byte of a fetch.
 * @param bytes_per_second rate of the flash after that; 0 for no time.
 */
NeutronError dtn_fetch_install(uint32_t latency_ns, uint32_t bytes_per_second);
