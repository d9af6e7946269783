#include "prepare.h"

#include <stddef.h>

#include "deuteron/port.h"
#include "fetch.h"
#include "npu.h"

/* A NULL pointer in images of bundles without fetches: those do not link fetch.c. */
__attribute__((weak)) NeutronError dtn_fetch_install(uint32_t latency_ns, uint32_t bytes_per_second);

dtn_prepared_t dtn_runner_prepare(dtn_executor_t *executor, uint32_t flash_latency_ns, uint32_t flash_bytes_per_second)
{
    dtn_prepared_t prepared = {.error = neutronInit(), .is_npu_started = true};
    if (prepared.error == ENONE && dtn_fetch_install != NULL) {
        prepared.error = dtn_fetch_install(flash_latency_ns, flash_bytes_per_second);
    }
    if (dtn_npu_start != NULL) {
        prepared.is_npu_started = dtn_npu_start();
    }
    uint32_t start = dtn_port_ticks();
    if (prepared.error == ENONE) {
        prepared.error = dtn_executor_init(executor, &dtn_bundle, dtn_bundle_memories);
    }
    prepared.init_ticks = dtn_port_ticks() - start;
    return prepared;
}
