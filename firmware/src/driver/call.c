#include "call.h"

/* The three words of an operand, read in place. */
typedef struct {
    uint32_t place; /* the region in the low 8 bits, above them which of it */
    uint32_t offset;
    uint32_t bytes;
} ref_t;

typedef char ref_is_its_words[sizeof(ref_t) == DTN_OPERAND_WORDS * DTN_WORD_BYTES ? 1 : -1];

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

static const ref_t *refs_of(const uint32_t *command)
{
    return (const ref_t *)(command + 3);
}

static uint32_t region_of(const ref_t *ref)
{
    return ref->place & 0xFFU;
}

static const int32_t *params_of(const uint32_t *command, uint32_t operands)
{
    return (const int32_t *)(command + 3 + operands * DTN_OPERAND_WORDS);
}

/* Sets the size of the operand's region; false when there is no such region. */
static bool region_size(const dtn_model_t *model, const ref_t *ref, uint32_t *size)
{
    const uint32_t *table = model->words + DTN_HEADER_WORDS;
    uint32_t index = ref->place >> 8;
    switch (region_of(ref)) {
    case DTN_REGION_INPUT:
        *size = index < model->inputs ? table[index] : 0;
        return index < model->inputs;
    case DTN_REGION_OUTPUT:
        *size = index < model->outputs ? table[model->inputs + index] : 0;
        return index < model->outputs;
    case DTN_REGION_SCRATCH:
        *size = model->scratch_bytes;
        return index == 0;
    case DTN_REGION_WEIGHTS:
        *size = model->weights_bytes;
        return index == 0;
    case DTN_REGION_PREFETCH:
        *size = model->prefetch_bytes;
        return index == 0;
    default:
        return false;
    }
}

static dtn_reason_t ref_check(const dtn_model_t *model, uint32_t kind, const ref_t *ref, bool written, bool aligned)
{
    uint32_t size;
    bool any_offset = kind == DTN_KERNEL_COPY_S8 || kind == DTN_KERNEL_FILL_S8;
    uint32_t region = region_of(ref);
    bool external = region == DTN_REGION_INPUT || region == DTN_REGION_OUTPUT;
    if (!region_size(model, ref, &size)) {
        return DTN_REASON_OPERAND_REGION;
    }
    if (ref->bytes > size || ref->offset > size - ref->bytes) {
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

static bool is_apart(const ref_t *a, const ref_t *b)
{
    /* Both ends are inside a region, so the sums do not overflow. */
    return a->place != b->place || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

static uint8_t *address(const dtn_model_t *model, const dtn_buffers_t *buffers, const ref_t *ref)
{
    uint32_t index = ref->place >> 8;
    const uint8_t *base = NULL;
    switch (region_of(ref)) {
    case DTN_REGION_INPUT:
        base = (const uint8_t *)buffers->inputs[index];
        break;
    case DTN_REGION_OUTPUT:
        base = (const uint8_t *)buffers->outputs[index];
        break;
    case DTN_REGION_SCRATCH:
        base = buffers->scratch;
        break;
    case DTN_REGION_WEIGHTS:
        base = model->weights;
        break;
    default:
        base = buffers->prefetch;
        break;
    }
    /* One pointer type serves all operands; ref_check made sure that what is written is writable. */
    return base == NULL ? NULL : (uint8_t *)(base + ref->offset);
}

/* Everything but overlap, operand by operand; fills `call` with what is known before a run. */
static dtn_reason_t operands_check(const dtn_model_t *model, const uint32_t *command, uint32_t kind, dtn_call_t *call)
{
    const signature_t *signature = &signatures[kind];
    uint32_t operands = (uint32_t)signature->read + signature->written;
    for (uint32_t i = 0; i < operands; i++) {
        const ref_t *ref = refs_of(command) + i;
        dtn_reason_t reason = ref_check(model, kind, ref, i >= signature->read, signature->aligned >> i & 1U);
        if (reason != DTN_OK) {
            return reason;
        }
        call->operands[i].data =
            region_of(ref) == DTN_REGION_WEIGHTS ? (uint8_t *)(uintptr_t)(model->weights + ref->offset) : NULL;
        call->operands[i].bytes = ref->bytes;
        call->operands[i].in_place = false;
    }
    call->params = params_of(command, operands);
    return DTN_OK;
}

static dtn_reason_t overlap_check(const uint32_t *command, const signature_t *signature, dtn_call_t *call)
{
    uint32_t operands = (uint32_t)signature->read + signature->written;
    for (uint32_t w = signature->read; w < operands; w++) {
        const ref_t *written = refs_of(command) + w;
        for (uint32_t i = 0; i < operands; i++) {
            const ref_t *other = refs_of(command) + i;
            if (i == w || is_apart(written, other)) {
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
    dtn_reason_t reason = operands_check(model, command, kind, &call);
    if (reason == DTN_OK) {
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
    const signature_t *signature = &signatures[kind];
    uint32_t operands = (uint32_t)signature->read + signature->written;
    bool checked = true;
    dtn_call_t call;
    for (uint32_t i = 0; i < operands; i++) {
        const ref_t *ref = refs_of(command) + i;
        call.operands[i].data = address(model, buffers, ref);
        call.operands[i].bytes = ref->bytes;
        call.operands[i].in_place = false;
        /* A table outside the weights had no content to check at prepare. */
        checked = checked && ((signature->checked & (1U << i)) == 0 || region_of(ref) == DTN_REGION_WEIGHTS);
    }
    call.params = params_of(command, operands);
    if (!checked) {
        dtn_reason_t reason = (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_CHECK);
        if (reason != DTN_OK) {
            return reason;
        }
    }
    return (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_RUN);
}
