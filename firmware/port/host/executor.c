#define _POSIX_C_SOURCE 200809L

#include "executor.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "deuteron/ethosu_device.h"
#include "deuteron/microcode.h"
#include "deuteron/npu.h"
#include "ethosu_driver.h"

/* As much as the largest Ethos-U has. */
enum { SHRAM_BYTES = 48 << 10 };

/* The blocks of an Ethos-U's partition, and its regions. */
enum { LAYOUT = 0, COMMANDS = 1, WEIGHTS = 2, ETHOSU_BLOCKS = 3 };

const uint32_t dtn_host_layout[] = {
    sizeof(dtn_value_t),
    sizeof(dtn_step_t),
    sizeof(dtn_constant_t),
    offsetof(dtn_constant_t, bytes),
    sizeof(dtn_delegate_t),
    offsetof(dtn_delegate_t, first),
    sizeof(dtn_bundle_t),
    offsetof(dtn_bundle_t, values),
    offsetof(dtn_bundle_t, value_count),
};
const uint32_t dtn_host_layout_count = sizeof dtn_host_layout / sizeof dtn_host_layout[0];

struct dtn_host {
    dtn_executor_t executor;
    const dtn_bundle_t *bundle;
    dtn_memory_t *memories;
    uint32_t memory_count;
    bool has_ethosu;
    struct ethosu_driver driver;
    struct ethosu_device device;
    uint8_t *shram;
    uint8_t *workspace;
};

/* One Ethos-U is there at a time, that of the program which runs: the driver gives a partition any that is free. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, DTN_ALIGNMENT, bytes == 0 ? 1 : bytes) != 0) {
        return NULL;
    }
    return memset(memory, 0, bytes);
}

/* Bytes that the commands of an Ethos-U's partitions need besides their regions; 0 for damaged ones, which do not run.
 */
static size_t workspace_bytes(dtn_host_t *host)
{
    size_t most = 0;
    for (uint32_t i = 0; i < host->bundle->delegate_count; i++) {
        const dtn_delegate_t *delegate = &host->bundle->delegates[i];
        const dtn_constant_t *blocks = &host->bundle->constants[delegate->first];
        if (delegate->npu != &dtn_npu_ethosu) {
            continue;
        }
        host->has_ethosu = true;
        if (delegate->blocks != ETHOSU_BLOCKS || blocks[LAYOUT].bytes < DTN_ETHOSU_LAYOUT_TENSORS * DTN_WORD_BYTES) {
            continue;
        }
        const uint32_t *layout = (const uint32_t *)blocks[LAYOUT].data;
        const size_t regions[] = {blocks[WEIGHTS].bytes, layout[DTN_ETHOSU_LAYOUT_SCRATCH],
                                  layout[DTN_ETHOSU_LAYOUT_FAST]};
        (void)dtn_ethosu_device_check(&host->device, blocks[COMMANDS].data, blocks[COMMANDS].bytes, regions,
                                      sizeof regions / sizeof regions[0]);
        most = host->device.workspace_needed > most ? host->device.workspace_needed : most;
    }
    return most;
}

static bool allocate_all(dtn_host_t *host)
{
    const dtn_bundle_t *bundle = host->bundle;
    host->memories = allocate(bundle->memory_count * sizeof *host->memories);
    host->shram = allocate(SHRAM_BYTES);
    if (host->memories == NULL || host->shram == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        host->memories[i].bytes = bundle->memory_bytes[i];
        host->memories[i].data = allocate(bundle->memory_bytes[i]);
        if (host->memories[i].data == NULL) {
            return false;
        }
    }
    host->device.shram = host->shram;
    host->device.shram_bytes = SHRAM_BYTES;
    const size_t workspace = workspace_bytes(host);
    host->workspace = allocate(workspace);
    host->device.workspace = host->workspace;
    host->device.workspace_bytes = workspace;
    return host->workspace != NULL;
}

dtn_host_t *dtn_host_create(const dtn_bundle_t *bundle)
{
    dtn_host_t *host = allocate(sizeof *host);
    if (host == NULL) {
        return NULL;
    }
    host->bundle = bundle;
    host->memory_count = bundle->memory_count;
    if (!allocate_all(host)) {
        dtn_host_destroy(host);
        return NULL;
    }
    return host;
}

NeutronError dtn_host_prepare(dtn_host_t *host)
{
    (void)pthread_mutex_lock(&running);
    NeutronError error = neutronInit();
    error = error == ENONE ? dtn_executor_init(&host->executor, host->bundle, host->memories) : error;
    (void)pthread_mutex_unlock(&running);
    return error;
}

static void begin(dtn_host_t *host)
{
    (void)pthread_mutex_lock(&running);
    if (host->has_ethosu) {
        (void)ethosu_init(&host->driver, &host->device, NULL, 0, 0, 0);
    }
}

static NeutronError end(dtn_host_t *host, NeutronError error)
{
    if (host->has_ethosu) {
        ethosu_deinit(&host->driver);
    }
    (void)pthread_mutex_unlock(&running);
    return error;
}

NeutronError dtn_host_run(dtn_host_t *host, const void *const *inputs, void *const *outputs)
{
    begin(host);
    return end(host, dtn_executor_run(&host->executor, inputs, outputs));
}

NeutronError dtn_host_step(dtn_host_t *host)
{
    begin(host);
    return end(host, dtn_executor_step(&host->executor));
}

uint32_t dtn_host_steps(const dtn_host_t *host)
{
    return host->executor.step;
}

void *dtn_host_memory(const dtn_host_t *host, uint32_t index)
{
    return host->memories[index].data;
}

void dtn_host_destroy(dtn_host_t *host)
{
    for (uint32_t i = 0; host->memories != NULL && i < host->memory_count; i++) {
        free(host->memories[i].data);
    }
    free(host->memories);
    free(host->shram);
    free(host->workspace);
    free(host);
}
