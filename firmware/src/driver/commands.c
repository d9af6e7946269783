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

/* What the fetches so far have left behind. */
typedef struct {
    dtn_ref_t flights[DTN_CHANNELS]; /* for each busy channel, the bytes that its fetch writes */
    uint32_t busy;                   /* a bit per channel: nothing has waited for its fetch */
    uint32_t resident_end;           /* of the last resident fetch */
} fetches_t;

/* True when a fetch of any channel still writes one of the bytes, which lie in their region. */
static bool is_in_flight(const fetches_t *fetches, const dtn_ref_t *ref)
{
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        if ((fetches->busy >> i & 1U) != 0 && !dtn_is_apart(&fetches->flights[i].place, &ref->place)) {
            return true;
        }
    }
    return false;
}

/* True when the bytes lie within `size`, and where they start and how many they are is a multiple of 16. */
static bool is_block(uint32_t offset, uint32_t bytes, uint32_t size)
{
    return (offset | bytes) % DTN_ALIGNMENT == 0 && bytes <= size && offset <= size - bytes;
}

static dtn_reason_t fetch_check(const dtn_model_t *model, const uint32_t *command, fetches_t *fetches)
{
    bool to_scratch = dtn_is_to_scratch(command[1]);
    uint32_t minor = model->words[DTN_HEADER_VERSION] & 0xFFFFU;
    uint32_t channel = dtn_fetch_channel(command[1]);
    dtn_ref_t target = {to_scratch ? DTN_REGION_SCRATCH : DTN_REGION_PREFETCH, command[3], command[4]};
    if (channel >= DTN_CHANNELS || (to_scratch && minor < DTN_MINOR_OF_SCRATCH_FETCHES)) {
        return DTN_REASON_CHANNEL;
    }
    if ((fetches->busy >> channel & 1U) != 0) {
        return DTN_REASON_CHANNEL_BUSY;
    }
    if (target.bytes == 0 || !is_block(command[2], target.bytes, model->memory_bytes[DTN_WEIGHTS]) ||
        !is_block(target.offset, target.bytes, model->memory_bytes[to_scratch ? DTN_SCRATCH : DTN_PREFETCH])) {
        return DTN_REASON_FETCH_RANGE;
    }
    if (is_in_flight(fetches, &target)) {
        return DTN_REASON_IN_FLIGHT;
    }
    fetches->flights[channel] = target;
    fetches->busy |= UINT32_C(1) << channel;
    if (!to_scratch && target.offset < model->resident_bytes) {
        /* Resident fetches lie inside the resident bytes, one after the other. */
        if (target.bytes > model->resident_bytes - target.offset || target.offset < fetches->resident_end) {
            return DTN_REASON_RESIDENT;
        }
        fetches->resident_end = target.offset + target.bytes;
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
    dtn_reason_t reason = dtn_call_check(model, command);
    if (reason != DTN_OK) {
        return reason;
    }
    for (uint32_t i = 0; i < (command[1] >> 16 & 0xFFU); i++) {
        if (is_in_flight(fetches, dtn_refs(command) + i)) {
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
    const uint32_t *words = model->words;
    uint32_t at = model->first_command;
    fetches_t fetches;
    fetches.busy = 0;
    fetches.resident_end = 0;
    bool ended = false;
    for (uint32_t i = 0; !ended; i++) {
        if (at >= model->word_count || dtn_length(words[at]) == 0 || dtn_length(words[at]) > model->word_count - at) {
            return dtn_error(DTN_REASON_LENGTH, i);
        }
        dtn_reason_t reason = command_check(model, words + at, &fetches);
        if (reason != DTN_OK) {
            return dtn_error(reason, i);
        }
        ended = dtn_opcode(words[at]) == DTN_OPCODE_END;
        if (ended != (i + 1 == model->commands)) {
            return dtn_error(DTN_REASON_COMMAND_COUNT, i);
        }
        at += dtn_length(words[at]);
    }
    for (; at < model->word_count; at++) {
        if (words[at] != 0) {
            return dtn_error(DTN_REASON_RESERVED, 0);
        }
    }
    return ENONE;
}
