#include "hooks.h"

#include <string.h>

#include "deuteron/driver.h"

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

/* The driver's only writable variables: the API gives neutronSetConfig no handle, so the hooks belong to the process,
 * and so does what they report. A hook may learn of the failure in an interrupt. */
static NeutronConfig in_force = {copy_now, nothing_to_wait_for};
static volatile bool failed;

const NeutronConfig *dtn_hooks(void)
{
    return &in_force;
}

void dtn_hooks_reset(void)
{
    in_force = defaults;
}

void dtn_fetch_failed(void)
{
    failed = true;
}

void dtn_fetch_clear(void)
{
    failed = false;
}

dtn_reason_t dtn_fetch_state(void)
{
    return failed ? DTN_REASON_FETCH : DTN_OK;
}

NeutronError neutronSetConfig(NeutronConfig *config)
{
    if (config == NULL || config->copy == NULL || config->wait == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    in_force = *config;
    return ENONE;
}
