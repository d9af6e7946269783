#include "model.h"

#include "call.h"
#include "commands.h"
#include "deuteron/port.h"
#include "header.h"
#include "hooks.h"
#include "progress.h"

static dtn_reason_t block_check(const void *block)
{
    if (block == NULL) {
        return DTN_REASON_NULL_POINTER;
    }
    return dtn_is_aligned(block) ? DTN_OK : DTN_REASON_MISALIGNED;
}

NeutronError dtn_model_check(const NeutronModelConfig *config, const dtn_kernel_t *kernels, dtn_model_t *model)
{
    dtn_reason_t reason = block_check(config->microcode);
    if (reason == DTN_OK) {
        reason = block_check(config->weights);
    }
    if (reason == DTN_OK) {
        reason = block_check(config->kernels);
    }
    if (reason == DTN_OK) {
        reason = dtn_header_check(config, model);
    }
    if (reason != DTN_OK) {
        return dtn_error(reason, 0);
    }
    model->kernels = kernels;
    model->program = model->words + model->first_command;
    NeutronError error = dtn_kernels_check((const uint32_t *)config->kernels, model);
    if (error != ENONE) {
        return error;
    }
    return dtn_commands_check(model);
}

/* True if the array of pointers, or one of its pointers, is NULL. */
static bool any_null(const void *const *pointers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (pointers == NULL || pointers[i] == NULL) {
            return true;
        }
    }
    return false;
}

/* Checks the pointers of `data` and fills the buffers, which are NULL. Ignores blocks that the model does not need:
 * callers leave their pointers uninitialised. */
static dtn_reason_t buffers_read(const dtn_model_t *model, const NeutronDataConfig *data, dtn_buffers_t *buffers)
{
    buffers->tensors[DTN_REGION_INPUT] = (const void *const *)data->inputs;
    buffers->tensors[DTN_REGION_OUTPUT] = (const void *const *)data->outputs;
    if (any_null(buffers->tensors[DTN_REGION_INPUT], model->inputs) ||
        any_null(buffers->tensors[DTN_REGION_OUTPUT], model->outputs) ||
        (data->outputs == NULL && (model->memory_bytes[DTN_SCRATCH] | model->profile_bytes) != 0)) {
        return DTN_REASON_NULL_POINTER;
    }
    dtn_reason_t reason = DTN_OK;
    if (model->memory_bytes[DTN_SCRATCH] != 0) {
        buffers->memories[DTN_SCRATCH] = (uint8_t *)data->outputs[model->outputs];
        reason = block_check(buffers->memories[DTN_SCRATCH]);
    }
    if (reason == DTN_OK && model->profile_bytes != 0) {
        buffers->profile = (uint32_t *)data->outputs[model->outputs + 1];
        reason = block_check(buffers->profile);
    }
    if (reason == DTN_OK && model->memory_bytes[DTN_PREFETCH] != 0) {
        buffers->memories[DTN_PREFETCH] = (uint8_t *)data->scratchWeights;
        reason = block_check(buffers->memories[DTN_PREFETCH]);
    }
    return reason;
}

/* Opcodes of profile records, defined by the vendor: those of commands are in our order. */
enum { PROFILE_CALL = 6 };
typedef char calls_fetches_and_waits_follow
    [DTN_OPCODE_FETCH == DTN_OPCODE_CALL + 1 && DTN_OPCODE_WAIT == DTN_OPCODE_CALL + 2 ? 1 : -1];

/* Writes one record: a start and a stop of {u8 event, u8 opcode, u8 function, u8 timestamp, u32 time}. */
static void record(uint32_t *to, uint32_t code, uint32_t start, uint32_t stop)
{
    to[0] = 1U | code;
    to[1] = start;
    to[2] = 2U | code;
    to[3] = stop;
}

/* A run has its own fetches: `outstanding` has a bit per channel with an outstanding copy. */
static dtn_reason_t fetch(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command,
                          uint32_t *outstanding)
{
    bool to_scratch = dtn_is_to_scratch(command[1]);
    uint32_t channel = dtn_fetch_channel(command[1]);
    if (buffers->resident && !to_scratch && command[3] < model->resident_bytes) {
        return DTN_OK;
    }
    uint8_t *target = (to_scratch ? buffers->memories[DTN_SCRATCH] : buffers->memories[DTN_PREFETCH]) + command[3];
    if (!dtn_hooks()->copy(target, model->weights + command[2], command[4], channel)) {
        return DTN_REASON_FETCH;
    }
    *outstanding |= UINT32_C(1) << channel;
    return DTN_OK;
}

static dtn_reason_t wait(uint32_t channel, uint32_t *outstanding)
{
    uint32_t flight = UINT32_C(1) << channel;
    if ((*outstanding & flight) == 0) {
        return DTN_OK;
    }
    *outstanding &= ~flight;
    return dtn_hooks()->wait(channel) ? DTN_OK : DTN_REASON_FETCH;
}

static dtn_reason_t command_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command,
                                uint32_t *outstanding)
{
    switch (dtn_opcode(command[0])) {
    case DTN_OPCODE_CALL:
        return dtn_call_run(model, buffers, command);
    case DTN_OPCODE_FETCH:
        return fetch(model, buffers, command, outstanding);
    default:
        return wait(command[1], outstanding);
    }
}

static void command_record(uint32_t *to, const uint32_t *command, uint32_t start)
{
    uint32_t kind = dtn_opcode(command[0]) - DTN_OPCODE_CALL + PROFILE_CALL;
    uint32_t number = command[1] & 0xFFU; /* number of the kernel or of the channel */
    record(to, kind << 8 | number << 16, start, dtn_port_ticks());
}

/* After a failed command or an abort: waits for outstanding copies, so that none writes to memory after the run. */
static void wait_for_copies(uint32_t *outstanding)
{
    for (uint32_t channel = 0; channel < DTN_CHANNELS; channel++) {
        (void)wait(channel, outstanding);
    }
}

NeutronError dtn_model_run(const dtn_model_t *model, const NeutronDataConfig *data, bool resident)
{
    dtn_buffers_t buffers = {.resident = resident};
    dtn_reason_t reason = buffers_read(model, data, &buffers);
    if (reason != DTN_OK) {
        return dtn_error(reason, 0);
    }
    uint32_t *profile = buffers.profile;
    uint32_t run_start = profile == NULL ? 0 : dtn_port_ticks();
    const uint32_t *command = model->program;
    uint32_t outstanding = 0;
    for (uint32_t i = 0; i + 1 < model->commands; i++) {
        uint32_t start = profile == NULL ? 0 : dtn_port_ticks();
        reason = command_run(model, &buffers, command, &outstanding);
        if (reason == DTN_OK) {
            if (profile != NULL) {
                command_record(profile, command, start);
                profile += DTN_PROFILE_RECORD_BYTES / DTN_WORD_BYTES;
            }
            command += dtn_length(command[0]);
            reason = dtn_progress();
        }
        if (reason != DTN_OK) {
            wait_for_copies(&outstanding);
            return dtn_error(reason, i);
        }
    }
    if (profile != NULL) {
        /* In reverse order: adding the call's time to the stop includes the driver's time after the commands. */
        record(profile, 0, dtn_port_ticks(), run_start);
    }
    return ENONE;
}
