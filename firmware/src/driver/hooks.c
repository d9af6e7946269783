#include "hooks.h"

#include <string.h>

#include "deuteron/errors.h"

static bool copy_now(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    (void)channel;
    memcpy(dst, src, size);
    return true;
}

static bool nothing_to_wait_for(uint32_t channel)
{
    (void)channel;
    return true;
}

/* Hooks are global, because neutronSetConfig gets no handle. Runs only read them. */
static dtn_fetch_hooks_t in_force = {copy_now, nothing_to_wait_for};
static NeutronConfig plain; /* the functions that copy_plain and wait_plain call */

static bool copy_plain(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    /* The hook's type has no const; it only reads the source. */
    plain.copy(dst, (void *)(uintptr_t)src, size, channel);
    return true;
}

static bool wait_plain(uint32_t channel)
{
    plain.wait(channel);
    return true;
}

const dtn_fetch_hooks_t *dtn_hooks(void)
{
    return &in_force;
}

void dtn_hooks_reset(void)
{
    in_force = (dtn_fetch_hooks_t){copy_now, nothing_to_wait_for};
}

NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks)
{
    if (hooks == NULL || hooks->copy == NULL || hooks->wait == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    in_force = *hooks;
    return ENONE;
}

NeutronError neutronSetConfig(NeutronConfig *config)
{
    if (config == NULL || config->copy == NULL || config->wait == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    plain = *config;
    in_force = (dtn_fetch_hooks_t){copy_plain, wait_plain};
    return ENONE;
}
