#include "call.h"

typedef char ref_is_its_words[sizeof(dtn_ref_t) == DTN_OPERAND_WORDS * DTN_WORD_BYTES ? 1 : -1];

/* A kernel's operands, by its number: how many it reads, and how many it has with those that it writes. */
typedef struct {
    uint8_t read;
    uint8_t operands;
    uint8_t words;
    uint8_t checked;
    uint8_t aligned;
    uint8_t in_place;
} signature_t;

static const signature_t signatures[DTN_KERNEL_KINDS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    [DTN_KERNEL_##NAME] = {read, (read) + (written), words, checked, aligned, in_place},
    DTN_KERNELS(DTN_X)
#undef DTN_X
};

/* Parameters are read in place as words of the microcode: a record must be as long as its words, without padding. */
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    typedef char name##_record_is_its_words[sizeof(dtn_##name##_params_t) == DTN_WORD_BYTES * (words) ? 1 : -1];
DTN_KERNELS(DTN_X)
#undef DTN_X

static uint32_t region_of(const dtn_ref_t *ref)
{
    return ref->place & 0xFFU;
}

/* Checks `ref`, operand `i` of a call, except for overlap, and fills `resolved`: the same operand, with its place in
 * scratch if the tensor has one. */
static dtn_reason_t ref_check(const dtn_model_t *model, uint32_t kind, const signature_t *signature,
                              const dtn_ref_t *ref, uint32_t i, dtn_ref_t *resolved)
{
    bool any_offset = kind == DTN_KERNEL_COPY_S8 || kind == DTN_KERNEL_FILL_S8;
    uint32_t region = region_of(ref);
    uint32_t index = ref->place >> 8;
    uint32_t place = DTN_ELSEWHERE;
    uint32_t size;
    if (region < DTN_REGION_SCRATCH) {
        if (index >= (region == DTN_REGION_INPUT ? model->inputs : model->outputs)) {
            return DTN_REASON_OPERAND_REGION;
        }
        uint32_t tensor = region == DTN_REGION_INPUT ? index : model->inputs + index;
        size = model->words[DTN_HEADER_WORDS + tensor];
        place = dtn_place(model, tensor);
    } else {
        if (region > DTN_REGION_PREFETCH || index != 0) {
            return DTN_REASON_OPERAND_REGION;
        }
        size = model->memory_bytes[region - DTN_REGION_SCRATCH];
    }
    if (!dtn_is_inside(ref->offset, ref->bytes, size)) {
        return DTN_REASON_OPERAND_RANGE;
    }
    if (region < DTN_REGION_SCRATCH ? (signature->aligned >> i & 1U) != 0
                                    : !any_offset && ref->offset % DTN_ALIGNMENT != 0) {
        return DTN_REASON_OPERAND_ALIGNMENT;
    }
    if (i >= signature->read && region != DTN_REGION_OUTPUT && region != DTN_REGION_SCRATCH) {
        return DTN_REASON_OPERAND_READ_ONLY;
    }
    *resolved = *ref;
    if (place != DTN_ELSEWHERE) {
        resolved->place = DTN_REGION_SCRATCH;
        resolved->offset += place;
    }
    return DTN_OK;
}

bool dtn_is_disjoint(const dtn_ref_t *a, const dtn_ref_t *b)
{
    return a->place != b->place || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

/* Address of a checked operand. Before a run there are no buffers: then NULL, except for weights. */
static const void *base_of(const dtn_model_t *model, const dtn_buffers_t *buffers, const dtn_ref_t *ref)
{
    uint32_t region = region_of(ref);
    if (region == DTN_REGION_WEIGHTS) {
        return model->weights;
    }
    if (buffers == NULL) {
        return NULL;
    }
    return region < DTN_REGION_SCRATCH ? buffers->tensors[region][ref->place >> 8]
                                       : buffers->memories[region - DTN_REGION_SCRATCH];
}

/* Fills `call`; operands in place have a bit in `in_place`. False if a table to be checked is not in the weights: its
 * content is known only in a run. */
static bool call_fill(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command,
                      uint32_t in_place, dtn_call_t *call)
{
    const signature_t *signature = &signatures[command[1] & 0xFFFFU];
    const dtn_ref_t *ref = dtn_refs(command);
    uint32_t in_weights = 0;
    for (uint32_t i = 0; i < signature->operands; i++) {
        const void *base = base_of(model, buffers, ref);
        /* One pointer type for all operands; ref_check ensures that written ones are writable. */
        call->operands[i].data = base == NULL ? NULL : (uint8_t *)(uintptr_t)base + ref->offset;
        call->operands[i].bytes = ref->bytes;
        call->operands[i].in_place = (in_place >> i & 1U) != 0;
        in_weights |= (uint32_t)(region_of(ref) == DTN_REGION_WEIGHTS) << i;
        ref++;
    }
    call->params = (const int32_t *)ref; /* they follow the operands */
    return (signature->checked & ~in_weights) == 0;
}

/* True if the written operand `i` does not overlap earlier ones, or equals those with a bit in `replaceable` exactly;
 * these get a bit in `in_place`. */
static bool is_apart_or_exact(const dtn_ref_t *resolved, uint32_t i, uint32_t replaceable, uint32_t *in_place)
{
    for (uint32_t j = 0; j < i; j++) {
        if (dtn_is_disjoint(&resolved[i], &resolved[j])) {
            continue;
        }
        bool exact = resolved[i].offset == resolved[j].offset && resolved[i].bytes == resolved[j].bytes;
        if (!exact || (replaceable >> j & 1U) == 0) {
            return false;
        }
        *in_place |= UINT32_C(1) << j;
    }
    return true;
}

dtn_reason_t dtn_call_check(const dtn_model_t *model, const uint32_t *command, dtn_ref_t *resolved)
{
    uint32_t kind = command[1] & 0xFFFFU;
    if (kind == 0 || kind >= DTN_KERNEL_KINDS) {
        return DTN_REASON_KERNEL_UNKNOWN;
    }
    if ((model->listed & (UINT32_C(1) << kind)) == 0) {
        return DTN_REASON_KERNEL_UNLISTED;
    }
    const signature_t *signature = &signatures[kind];
    uint32_t operands = signature->operands;
    uint32_t words = signature->words;
    if (command[1] != (kind | operands << 16 | words << 24) ||
        dtn_length(command[0]) != 3 + operands * DTN_OPERAND_WORDS + words) {
        return DTN_REASON_SIGNATURE;
    }
    uint32_t in_place = 0;
    for (uint32_t i = 0; i < operands; i++) {
        dtn_reason_t reason = ref_check(model, kind, signature, dtn_refs(command) + i, i, &resolved[i]);
        if (reason != DTN_OK) {
            return reason;
        }
        if (i >= signature->read && !is_apart_or_exact(resolved, i, signature->in_place, &in_place)) {
            return DTN_REASON_OPERAND_OVERLAP;
        }
    }
    dtn_call_t call;
    (void)call_fill(model, NULL, command, in_place, &call);
    return (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_CHECK);
}

dtn_reason_t dtn_call_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command)
{
    uint32_t kind = command[1] & 0xFFFFU;
    dtn_call_t call;
    dtn_reason_t reason = DTN_OK;
    if (!call_fill(model, buffers, command, 0, &call)) {
        reason = (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_CHECK);
    }
    return reason != DTN_OK ? reason : (dtn_reason_t)model->kernels[kind](&call, DTN_PHASE_RUN);
}
