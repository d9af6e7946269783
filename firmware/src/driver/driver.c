#include "deuteron/driver.h"

#include "deuteron/port.h"
#include "driver.h"
#include "header.h"
#include "hooks.h"
#include "model.h"

/* Marks a live context; cleared by unprepare, so that a stale handle is detected while its memory is still ours. */
#define LIVE UINT32_C(0x6E757444)

/* The context behind a handle. */
typedef struct {
    uint32_t live;
    bool owned;       /* the memory came from the port */
    bool keeps;       /* the caller promised to leave the prefetch area alone between runs */
    const void *kept; /* the prefetch area that a complete run filled, or NULL */
    dtn_model_t model;
} context_t;

/* The promised bound for callers that lay out memory ahead of time. */
typedef char context_fits_its_bound[sizeof(context_t) <= DTN_CONTEXT_BYTES ? 1 : -1];

/* ExecuTorch's delegate allocates a context with pointer alignment only, which suffices. */
static bool is_context_aligned(const void *memory)
{
    return (uintptr_t)memory % sizeof(void *) == 0;
}

static context_t *context_of(NeutronModelHandle hdl)
{
    context_t *context = (context_t *)hdl;
    if (context == NULL || !is_context_aligned(context) || context->live != LIVE) {
        return NULL;
    }
    return context;
}

/* Number of neutronInit calls without a neutronDeinit. */
static uint32_t users;

NeutronError neutronInit(void)
{
    if (users == 0 && !dtn_port_init()) {
        return dtn_error(DTN_REASON_PORT, 0);
    }
    users++;
    return ENONE;
}

NeutronError neutronDeinit(void)
{
    if (users != 0 && --users == 0) {
        dtn_hooks_reset();
        dtn_port_deinit();
    }
    return ENONE;
}

NeutronError neutronModelPrepare(const NeutronModelConfig *mcfg, NeutronModelHandle *hdl)
{
    if (mcfg == NULL || hdl == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!is_context_aligned(*hdl)) {
        return dtn_error(DTN_REASON_MISALIGNED, 0);
    }
    dtn_model_t model;
    NeutronError error = dtn_model_check(mcfg, neutronKernels, &model);
    if (error != ENONE) {
        return error;
    }
    bool owned = *hdl == NULL;
    context_t *context = owned ? (context_t *)dtn_port_alloc(sizeof *context) : (context_t *)*hdl;
    if (context == NULL) {
        return dtn_error(DTN_REASON_NO_MEMORY, 0);
    }
    context->live = LIVE;
    context->owned = owned;
    context->keeps = false;
    context->kept = NULL;
    context->model = model;
    *hdl = context;
    return ENONE;
}

NeutronError neutronModelUnprepare(NeutronModelHandle hdl)
{
    context_t *context = context_of(hdl);
    if (context == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    context->live = 0;
    if (context->owned) {
        dtn_port_free(context);
    }
    return ENONE;
}

NeutronError neutronRunBlocking(NeutronModelHandle hdl, const NeutronDataConfig *dcfg)
{
    context_t *context = context_of(hdl);
    if (context == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    if (dcfg == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!context->keeps) {
        return dtn_model_run(&context->model, dcfg, false); /* may be one of several concurrent runs */
    }
    bool resident = context->kept == dcfg->scratchWeights; /* a run without an area fails: both are NULL then */
    context->kept = NULL;
    NeutronError error = dtn_model_run(&context->model, dcfg, resident);
    if (error == ENONE) {
        context->kept = dcfg->scratchWeights;
    }
    return error;
}

NeutronError dtn_model_keep_prefetch(NeutronModelHandle hdl, bool keep)
{
    context_t *context = context_of(hdl);
    if (context == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    /* The pointer to the area is uninitialised for a model without one. */
    context->keeps = keep && context->model.resident_bytes != 0;
    context->kept = NULL;
    return ENONE;
}

dtn_model_t *dtn_model_of(NeutronModelHandle hdl)
{
    context_t *context = context_of(hdl);
    return context == NULL ? NULL : &context->model;
}

NeutronError dtn_model_info(NeutronModelHandle hdl, dtn_model_info_t *info)
{
    const context_t *context = context_of(hdl);
    if (context == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    if (info == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    const dtn_model_t *model = &context->model;
    info->inputs = model->inputs;
    info->outputs = model->outputs;
    info->tensor_bytes = model->words + DTN_HEADER_WORDS;
    info->scratch_bytes = model->memory_bytes[DTN_SCRATCH];
    info->prefetch_bytes = model->memory_bytes[DTN_PREFETCH];
    info->profile_bytes = model->profile_bytes;
    return ENONE;
}

NeutronError dtn_model_verify(NeutronModelHandle hdl)
{
    const context_t *context = context_of(hdl);
    return dtn_error(context == NULL ? DTN_REASON_BAD_HANDLE : dtn_header_verify(&context->model), 0);
}

size_t neutronGetModelContextSize(void)
{
    return sizeof(context_t);
}

NeutronError neutronSuspend(void)
{
    dtn_port_clock(false);
    return ENONE;
}

NeutronError neutronResume(void)
{
    dtn_port_clock(true);
    return ENONE;
}

NeutronSdkVersion neutronGetSdkVersion(void)
{
    NeutronSdkVersion version = {
        .major = DTN_MICROCODE_VERSION_MAJOR,
        .minor = DTN_MICROCODE_VERSION_MINOR,
        .patch = 0,
        .hashString = "deuteron",
        .hashUint32 = DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MICROCODE_VERSION_MINOR,
    };
    return version;
}
