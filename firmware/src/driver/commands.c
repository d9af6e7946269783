#include "commands.h"

#include "call.h"

/* A bit per kernel in `dtn_model_t.listed`. */
typedef char kernel_numbers_fit_a_word[DTN_KERNEL_KINDS <= 32 ? 1 : -1];

NeutronError dtn_kernels_check(const uint32_t *block, dtn_model_t *model)
{
    uint32_t count = block[0];
    uint32_t previous = 0;
    model->listed = 0;
    if (count >= DTN_KERNEL_KINDS) {
        return dtn_error(DTN_REASON_KERNELS_BLOCK, 0);
    }
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t kind = block[i];
        if (kind <= previous || kind >= DTN_KERNEL_KINDS) {
            return dtn_error(DTN_REASON_KERNELS_BLOCK, 0);
        }
        if (model->kernels[kind] == NULL) {
            return dtn_error(DTN_REASON_KERNEL_ABSENT, kind);
        }
        model->listed |= UINT32_C(1) << kind;
        previous = kind;
    }
    return ENONE;
}

/* State of the fetches so far. */
typedef struct {
    dtn_ref_t outstanding[DTN_CHANNELS]; /* for each busy channel, the bytes that its fetch writes */
    uint32_t busy;                       /* a bit per channel with a fetch that no wait has completed */
    uint32_t resident_end;               /* end of the last resident fetch */
} fetches_t;

/* True if an outstanding fetch of any channel writes one of the bytes, which are in their region; for a tensor with a
 * place in scratch, there. */
static bool is_outstanding(const fetches_t *fetches, const dtn_ref_t *ref)
{
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        if ((fetches->busy >> i & 1U) != 0 && !dtn_is_disjoint(&fetches->outstanding[i], ref)) {
            return true;
        }
    }
    return false;
}

static dtn_reason_t fetch_check(const dtn_model_t *model, const uint32_t *command, fetches_t *fetches)
{
    bool to_scratch = dtn_is_to_scratch(command[1]);
    uint32_t minor = model->words[DTN_HEADER_VERSION] & 0xFFFFU;
    uint32_t channel = dtn_fetch_channel(command[1]);
    uint32_t region = to_scratch ? DTN_REGION_SCRATCH : DTN_REGION_PREFETCH;
    uint32_t offset = command[3];
    uint32_t bytes = command[4];
    if (channel >= DTN_CHANNELS || (to_scratch && minor < DTN_MINOR_OF_SCRATCH_FETCHES)) {
        return DTN_REASON_CHANNEL;
    }
    if ((fetches->busy >> channel & 1U) != 0) {
        return DTN_REASON_CHANNEL_BUSY;
    }
    if (bytes == 0 || (command[2] | offset | bytes) % DTN_ALIGNMENT != 0 ||
        !dtn_is_inside(command[2], bytes, model->memory_bytes[DTN_WEIGHTS]) ||
        !dtn_is_inside(offset, bytes, model->memory_bytes[region - DTN_REGION_SCRATCH])) {
        return DTN_REASON_FETCH_RANGE;
    }
    dtn_ref_t *target = &fetches->outstanding[channel];
    *target = (dtn_ref_t){region, offset, bytes};
    if (is_outstanding(fetches, target)) {
        return DTN_REASON_IN_FLIGHT;
    }
    fetches->busy |= UINT32_C(1) << channel;
    if (!to_scratch && offset < model->resident_bytes) {
        /* Resident fetches fill the resident bytes in order. */
        if (bytes > model->resident_bytes - offset || offset < fetches->resident_end) {
            return DTN_REASON_RESIDENT;
        }
        fetches->resident_end = offset + bytes;
    }
    return DTN_OK;
}

static dtn_reason_t wait_check(const uint32_t *command, fetches_t *fetches)
{
    if (command[1] >= DTN_CHANNELS) {
        return DTN_REASON_CHANNEL;
    }
    fetches->busy &= ~(UINT32_C(1) << command[1]);
    return DTN_OK;
}

static dtn_reason_t call_check(const dtn_model_t *model, const uint32_t *command, const fetches_t *fetches)
{
    dtn_ref_t resolved[DTN_MAX_OPERANDS];
    dtn_reason_t reason = dtn_call_check(model, command, resolved);
    if (reason != DTN_OK) {
        return reason;
    }
    for (uint32_t i = 0; i < (command[1] >> 16 & 0xFFU); i++) {
        if (is_outstanding(fetches, &resolved[i])) {
            return DTN_REASON_IN_FLIGHT;
        }
    }
    return DTN_OK;
}

static dtn_reason_t command_check(const dtn_model_t *model, const uint32_t *command, fetches_t *fetches)
{
    uint32_t length = dtn_length(command[0]);
    if ((command[0] & 0xFF00U) != 0) {
        return DTN_REASON_OPCODE;
    }
    switch (dtn_opcode(command[0])) {
    case DTN_OPCODE_CALL:
        return length < 3 ? DTN_REASON_LENGTH : call_check(model, command, fetches);
    case DTN_OPCODE_FETCH:
        return length != 5 ? DTN_REASON_LENGTH : fetch_check(model, command, fetches);
    case DTN_OPCODE_WAIT:
        return length != 2 ? DTN_REASON_LENGTH : wait_check(command, fetches);
    case DTN_OPCODE_END:
        if (length != 1) {
            return DTN_REASON_LENGTH;
        }
        return fetches->busy != 0 ? DTN_REASON_CHANNEL_BUSY : DTN_OK;
    default:
        return DTN_REASON_OPCODE;
    }
}

NeutronError dtn_commands_check(const dtn_model_t *model)
{
    const uint32_t *command = model->program;
    uint32_t left = model->word_count - model->first_command;
    fetches_t fetches;
    fetches.busy = 0;
    fetches.resident_end = 0;
    bool ended = false;
    for (uint32_t i = 0; !ended; i++) {
        uint32_t length = left == 0 ? 0 : dtn_length(command[0]);
        if (length == 0 || length > left) {
            return dtn_error(DTN_REASON_LENGTH, i);
        }
        dtn_reason_t reason = command_check(model, command, &fetches);
        if (reason != DTN_OK) {
            return dtn_error(reason, i);
        }
        ended = dtn_opcode(command[0]) == DTN_OPCODE_END;
        if (ended ? i + 1 != model->commands : i + 1 == model->commands) {
            return dtn_error(DTN_REASON_COMMAND_COUNT, i);
        }
        command += length;
        left -= length;
    }
    for (; left != 0; left--) {
        if (*command++ != 0) {
            return dtn_error(DTN_REASON_RESERVED, 0);
        }
    }
    return ENONE;
}
