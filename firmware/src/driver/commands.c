#include "model.h"

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

/* True when `bytes` from `offset` on lie within `size`, and both are multiples of 16. */
static bool is_block(uint32_t offset, uint32_t bytes, uint32_t size)
{
    return (offset | bytes) % DTN_ALIGNMENT == 0 && bytes <= size && offset <= size - bytes;
}

static dtn_reason_t fetch_check(const dtn_model_t *model, const uint32_t *command, uint32_t *busy)
{
    uint32_t channel = command[1];
    uint32_t bytes = command[4];
    if (channel >= DTN_CHANNELS) {
        return DTN_REASON_CHANNEL;
    }
    if ((*busy & (UINT32_C(1) << channel)) != 0) {
        return DTN_REASON_CHANNEL_BUSY;
    }
    if (bytes == 0 || !is_block(command[2], bytes, model->weights_bytes) ||
        !is_block(command[3], bytes, model->prefetch_bytes)) {
        return DTN_REASON_FETCH_RANGE;
    }
    *busy |= UINT32_C(1) << channel;
    return DTN_OK;
}

static dtn_reason_t wait_check(const uint32_t *command, uint32_t *busy)
{
    if (command[1] >= DTN_CHANNELS) {
        return DTN_REASON_CHANNEL;
    }
    *busy &= ~(UINT32_C(1) << command[1]);
    return DTN_OK;
}

/* `busy` has a bit for each channel with a fetch that nothing has waited for. */
static dtn_reason_t command_check(const dtn_model_t *model, const uint32_t *command, uint32_t *busy)
{
    uint32_t length = dtn_length(command[0]);
    if ((command[0] & 0xFF00U) != 0) {
        return DTN_REASON_OPCODE;
    }
    switch (dtn_opcode(command[0])) {
    case DTN_OPCODE_CALL:
        return length < 3 ? DTN_REASON_LENGTH : dtn_call_check(model, command);
    case DTN_OPCODE_FETCH:
        return length != 5 ? DTN_REASON_LENGTH : fetch_check(model, command, busy);
    case DTN_OPCODE_WAIT:
        return length != 2 ? DTN_REASON_LENGTH : wait_check(command, busy);
    case DTN_OPCODE_END:
        return length != 1 ? DTN_REASON_LENGTH : *busy != 0 ? DTN_REASON_CHANNEL_BUSY : DTN_OK;
    default:
        return DTN_REASON_OPCODE;
    }
}

NeutronError dtn_commands_check(const dtn_model_t *model)
{
    const uint32_t *words = model->words;
    uint32_t at = model->first_command;
    uint32_t busy = 0;
    bool ended = false;
    for (uint32_t i = 0; !ended; i++) {
        if (at >= model->word_count || dtn_length(words[at]) == 0 || dtn_length(words[at]) > model->word_count - at) {
            return dtn_error(DTN_REASON_LENGTH, i);
        }
        dtn_reason_t reason = command_check(model, words + at, &busy);
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
