#include "call.h"

typedef char ref_is_its_words[sizeof(dtn_ref_t) == DTN_OPERAND_WORDS * DTN_WORD_BYTES ? 1 : -1];

/* What a kernel takes, by its number. */
typedef struct {
    uint8_t read;
    uint8_t written;
    uint8_t words;
    uint8_t checked;
    uint8_t aligned;
    uint8_t in_place;
} signature_t;

static const signature_t signatures[DTN_KERNEL_KINDS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    [DTN_KERNEL_##NAME] = {read, written, words, checked, aligned, in_place},
    DTN_KERNELS(DTN_X)
#undef DTN_X
};

/* Parameters are read in place, as words of the microcode: a record must be as long as its words, without padding. */
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    typedef char name##_record_is_its_words[sizeof(dtn_##name##_params_t) == DTN_WORD_BYTES * (words) ? 1 : -1];
DTN_KERNELS(DTN_X)
#undef DTN_X

static uint32_t region_of(const dtn_ref_t *ref)
{
    return ref->place & 0xFFU;
}

static const int32_t *params_of(const uint32_t *command, uint32_t operands)
{
    return (const int32_t *)(command + 3 + operands * DTN_OPERAND_WORDS);
}

/* The size of the operand's region; NULL when there is no such region. */
static const uint32_t *region_size(const dtn_model_t *model, const dtn_ref_t *ref)
{
    const uint32_t *table = model->words + DTN_HEADER_WORDS;
    uint32_t region = region_of(ref);
    uint32_t index = ref->place >> 8;
    if (region == DTN_REGION_INPUT) {
        return index < model->inputs ? &table[index] : NULL;
    }
    if (region == DTN_REGION_OUTPUT) {
        return index < model->outputs ? &table[model->inputs + index] : NULL;
    }
    return region <= DTN_REGION_PREFETCH && index == 0 ? &model->memory_bytes[region - DTN_REGION_SCRATCH] : NULL;
}

static dtn_reason_t ref_check(const dtn_model_t *model, uint32_t kind, const dtn_ref_t *ref, bool written, bool aligned)
{
    const uint32_t *size = region_size(model, ref);
    bool any_offset = kind == DTN_KERNEL_COPY_S8 || kind == DTN_KERNEL_FILL_S8;
    uint32_t region = region_of(ref);
    bool external = region == DTN_REGION_INPUT || region == DTN_REGION_OUTPUT;
    if (size == NULL) {
        return DTN_REASON_OPERAND_REGION;
    }
    if (ref->bytes > *size || ref->offset > *size - ref->bytes) {
        return DTN_REASON_OPERAND_RANGE;
    }
    if (external ? aligned : !any_offset && ref->offset % DTN_ALIGNMENT != 0) {
        return DTN_REASON_OPERAND_ALIGNMENT;
    }
    if (written && region != DTN_REGION_OUTPUT && region != DTN_REGION_SCRATCH) {
        return DTN_REASON_OPERAND_READ_ONLY;
    }
    return DTN_OK;
}

bool dtn_is_apart(const uint32_t *a, const uint32_t *b)
{
    return a[0] != b[0] || a[1] + a[2] <= b[1] || b[1] + b[2] <= a[1];
}

/* Where a checked operand lies. There are no buffers before a run: then NULL but for weights. */
static const void *base_of(const dtn_model_t *model, const dtn_buffers_t *buffers, const dtn_ref_t *ref)
{
    uint32_t region = region_of(ref);
    uint32_t index = ref->place >> 8;
    if (region == DTN_REGION_WEIGHTS) {
        return model->weights;
    }
    if (buffers == NULL) {
        return NULL;
    }
    if (region == DTN_REGION_INPUT) {
        return buffers->inputs[index];
    }
    if (region == DTN_REGION_OUTPUT) {
        return buffers->outputs[index];
    }
    return region == DTN_REGION_SCRATCH ? buffers->scratch : buffers->prefetch;
}

/* Fills `call`; false when a table that is to be checked is not in the weights: only a run has its content. */
static bool call_fill(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command, dtn_call_t *call)
{
    const signature_t *signature = &signatures[command[1] & 0xFFFFU];
    uint32_t operands = (uint32_t)signature->read + signature->written;
    uint32_t in_weights = 0;
    for (uint32_t i = 0; i < operands; i++) {
        const dtn_ref_t *ref = dtn_refs(command) + i;
        const void *base = base_of(model, buffers, ref);
        /* One pointer type serves all operands; ref_check made sure that what is written is writable. */
        call->operands[i].data = base == NULL ? NULL : (uint8_t *)(uintptr_t)base + ref->offset;
        call->operands[i].bytes = ref->bytes;
        call->operands[i].in_place = false;
        in_weights |= (uint32_t)(region_of(ref) == DTN_REGION_WEIGHTS) << i;
    }
    call->params = params_of(command, operands);
    return (signature->checked & ~in_weights) == 0;
}

/* Everything but overlap, operand by operand. */
static dtn_reason_t operands_check(const dtn_model_t *model, const uint32_t *command, uint32_t kind)
{
    const signature_t *signature = &signatures[kind];
    uint32_t operands = (uint32_t)signature->read + signature->written;
    for (uint32_t i = 0; i < operands; i++) {
        dtn_reason_t reason =
            ref_check(model, kind, dtn_refs(command) + i, i >= signature->read, signature->aligned >> i & 1U);
        if (reason != DTN_OK) {
            return reason;
        }
    }
    return DTN_OK;
}

static dtn_reason_t overlap_check(const uint32_t *command, const signature_t *signature, dtn_call_t *call)
{
    uint32_t operands = (uint32_t)signature->read + signature->written;
    for (uint32_t w = signature->read; w < operands; w++) {
        const dtn_ref_t *written = dtn_refs(command) + w;
        for (uint32_t i = 0; i < operands; i++) {
            const dtn_ref_t *other = dtn_refs(command) + i;
            if (i == w || dtn_is_apart(&written->place, &other->place)) {
                continue;
            }
            bool exact = written->offset == other->offset && written->bytes == other->bytes;
            if (!exact || (signature->in_place & (1U << i)) == 0) {
                return DTN_REASON_OPERAND_OVERLAP;
            }
            call->operands[i].in_place = true;
        }
    }
    return DTN_OK;
}

dtn_reason_t dtn_call_check(const dtn_model_t *model, const uint32_t *command)
{
    uint32_t kind = command[1] & 0xFFFFU;
    if (kind == 0 || kind >= DTN_KERNEL_KINDS) {
        return DTN_REASON_KERNEL_UNKNOWN;
    }
    if ((model->listed & (UINT32_C(1) << kind)) == 0) {
        return DTN_REASON_KERNEL_UNLISTED;
    }
    const signature_t *signature = &signatures[kind];
    uint32_t operands = (uint32_t)signature->read + signature->written;
    uint32_t length = 3 + operands * DTN_OPERAND_WORDS + signature->words;
    if ((command[1] >> 16 & 0xFFU) != operands || command[1] >> 24 != signature->words ||
        dtn_length(command[0]) != length) {
        return DTN_REASON_SIGNATURE;
    }
    dtn_call_t call;
    dtn_reason_t reason = operands_check(model, command, kind);
    if (reason == DTN_OK) {
        (void)call_fill(model, NULL, command, &call);
        reason = overlap_check(command, signature, &call);
    }
    if (reason == DTN_OK) {
        reason = (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_CHECK);
    }
    return reason;
}

dtn_reason_t dtn_call_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command)
{
    uint32_t kind = command[1] & 0xFFFFU;
    dtn_call_t call;
    dtn_reason_t reason = DTN_OK;
    if (!call_fill(model, buffers, command, &call)) {
        reason = (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_CHECK);
    }
    return reason != DTN_OK ? reason : (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_RUN);
}
