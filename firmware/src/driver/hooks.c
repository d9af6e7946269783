#include "model.h"

#include <string.h>

static void copy_now(void *dst, void *src, uint32_t size, uint32_t channel)
{
    (void)channel;
    memcpy(dst, src, size);
}

static void nothing_to_wait_for(uint32_t channel)
{
    (void)channel;
}

static const NeutronConfig defaults = {copy_now, nothing_to_wait_for};

/* The driver's one writable variable: the API gives neutronSetConfig no handle, so the hooks belong to the process. */
static NeutronConfig in_force = {copy_now, nothing_to_wait_for};

const NeutronConfig *dtn_hooks(void)
{
    return &in_force;
}

void dtn_hooks_reset(void)
{
    in_force = defaults;
}

NeutronError neutronSetConfig(NeutronConfig *config)
{
    if (config == NULL || config->copy == NULL || config->wait == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    in_force = *config;
    return ENONE;
}
