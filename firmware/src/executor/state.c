/*
 * State: memory that a program reads and writes, and that lasts from one run to the next. It is linked by programs with
 * state only. The state memory starts with a status; the tensors follow, then working copies of some of them. The last
 * steps of a program change the tensors, without a pause (DTN_STEP_CHANGE) and without a way to fail.
 */
#include <stddef.h>
#include <string.h>

#include "../driver/types.h"
#include "deuteron/crc32.h"
#include "deuteron/errors.h"
#include "deuteron/operators.h"
#include "run_step.h"
#include "values.h"

/* First word of the status: the state is that after the last complete run, or a run has started to change it, and a
 * reset of the processor has interrupted it. */
#define COMPLETE UINT32_C(0x45544154)
#define CHANGING UINT32_C(0x474E4843)

enum { STATUS = 0, TENSORS = 1 };

/* Start of a saved state. */
typedef struct {
    uint32_t magic;
    uint32_t program; /* CRC-32 of its bundle */
    uint32_t bytes;   /* of the tensors that follow */
    uint32_t crc;     /* of these */
} saved_t;

#define SAVED_MAGIC UINT32_C(0x31535444)

static uint32_t *status_of(const dtn_tensor_t *values)
{
    return (uint32_t *)values[STATUS].data;
}

static bool is_begin(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *written = &call->values[call->input_count];
    if (call->input_count > 1 || call->output_count != 2 || call->param_count % DTN_STATE_FILL_PARAMS != 0 ||
        written[STATUS].bytes != DTN_STATE_STATUS_BYTES) {
        return false;
    }
    uint32_t left = written[TENSORS].bytes;
    for (uint32_t i = 0; i < call->param_count; i += DTN_STATE_FILL_PARAMS) {
        if (call->params[i + DTN_STATE_FILL_BYTES] > left || call->params[i + DTN_STATE_FILL_VALUE] > UINT8_MAX) {
            return false;
        }
        left -= call->params[i + DTN_STATE_FILL_BYTES];
    }
    return left == (call->input_count == 0 ? 0 : call->values[0].bytes);
}

static void initialise(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *written = &call->values[call->input_count];
    uint8_t *at = (uint8_t *)written[TENSORS].data;
    for (uint32_t i = 0; i < call->param_count; i += DTN_STATE_FILL_PARAMS) {
        memset(at, (int)call->params[i + DTN_STATE_FILL_VALUE], call->params[i + DTN_STATE_FILL_BYTES]);
        at += call->params[i + DTN_STATE_FILL_BYTES];
    }
    if (call->input_count != 0) {
        memcpy(at, call->values[0].data, call->values[0].bytes);
    }
    *status_of(written) = COMPLETE;
}

int32_t dtn_op_state_begin(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        if (!is_begin(call)) {
            return DTN_REASON_OPERATOR;
        }
        initialise(call);
        return DTN_OK;
    }
    uint32_t *status = status_of(&call->values[call->input_count]);
    if (*status != COMPLETE) {
        return DTN_REASON_STATE_LOST;
    }
    *status = CHANGING;
    return DTN_OK;
}

int32_t dtn_op_state_end(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        bool is_call = call->input_count == 1 && call->output_count == 1 && call->param_count == 0 &&
                       call->values[1].bytes == DTN_STATE_STATUS_BYTES;
        return is_call ? DTN_OK : DTN_REASON_OPERATOR;
    }
    *status_of(&call->values[1]) = COMPLETE;
    return DTN_OK;
}

/* Index of the step that begins to change the state; `step_count` if there is none. */
static uint32_t begin_of(const dtn_bundle_t *bundle)
{
    uint32_t i = 0;
    while (i < bundle->step_count && (bundle->steps[i].kind == DTN_STEP_DELEGATE ||
                                      bundle->operators[bundle->steps[i].index] != dtn_op_state_begin)) {
        i++;
    }
    return i;
}

/* Finds status and tensors of the state of an executor; reports an executor or program without. */
static NeutronError find(const dtn_executor_t *executor, dtn_tensor_t *values)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    const dtn_bundle_t *bundle = executor->bundle;
    uint32_t index = begin_of(bundle);
    if (index == bundle->step_count) {
        return dtn_error(DTN_REASON_STATE_SAVED, 0);
    }
    const dtn_step_t *step = &bundle->steps[index];
    dtn_value_tensors(executor, step->first + step->inputs + STATUS, 2, values);
    return ENONE;
}

NeutronError dtn_executor_reset(dtn_executor_t *executor)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    executor->is_stepped = false;
    uint32_t index = begin_of(executor->bundle);
    return index == executor->bundle->step_count ? ENONE : dtn_step_call(executor, index, DTN_PHASE_CHECK);
}

void *dtn_executor_state(const dtn_executor_t *executor, uint32_t *bytes)
{
    dtn_tensor_t values[2];
    bool is_found = find(executor, values) == ENONE;
    *bytes = is_found ? values[TENSORS].bytes : 0;
    return is_found ? values[TENSORS].data : NULL;
}

uint32_t dtn_state_bytes(const dtn_bundle_t *bundle)
{
    uint32_t index = bundle == NULL ? 0 : begin_of(bundle);
    if (bundle == NULL || index == bundle->step_count) {
        return 0;
    }
    const dtn_step_t *step = &bundle->steps[index];
    return (uint32_t)sizeof(saved_t) + dtn_value(bundle, step->first + step->inputs + TENSORS)->bytes;
}

/* Finds the state, and checks that `bytes` bytes hold a saved one. */
static NeutronError find_saved(const dtn_executor_t *executor, const void *data, size_t bytes, dtn_tensor_t *values)
{
    NeutronError error = find(executor, values);
    if (error == ENONE && executor->is_stepped) {
        error = dtn_error(DTN_REASON_RUN_STATE, 0);
    } else if (error == ENONE && data == NULL) {
        error = dtn_error(DTN_REASON_NULL_POINTER, 0);
    } else if (error == ENONE && bytes < sizeof(saved_t) + values[TENSORS].bytes) {
        error = dtn_error(DTN_REASON_STATE_SIZE, 0);
    }
    return error;
}

NeutronError dtn_executor_save_state(const dtn_executor_t *executor, void *data, size_t bytes)
{
    dtn_tensor_t values[2];
    NeutronError error = find_saved(executor, data, bytes, values);
    if (error != ENONE) {
        return error;
    }
    if (*status_of(values) != COMPLETE) {
        return dtn_error(DTN_REASON_STATE_LOST, begin_of(executor->bundle));
    }
    saved_t saved = {SAVED_MAGIC, executor->bundle->crc, values[TENSORS].bytes,
                     dtn_crc32(0, values[TENSORS].data, values[TENSORS].bytes)};
    memcpy(data, &saved, sizeof saved);
    memcpy((uint8_t *)data + sizeof saved, values[TENSORS].data, saved.bytes);
    return ENONE;
}

NeutronError dtn_executor_load_state(dtn_executor_t *executor, const void *data, size_t bytes)
{
    dtn_tensor_t values[2];
    saved_t saved;
    NeutronError error = find_saved(executor, data, bytes, values);
    if (error != ENONE) {
        return error;
    }
    const uint8_t *tensors = (const uint8_t *)data + sizeof saved;
    memcpy(&saved, data, sizeof saved);
    if (saved.magic != SAVED_MAGIC || saved.program != executor->bundle->crc || saved.bytes != values[TENSORS].bytes ||
        saved.crc != dtn_crc32(0, tensors, saved.bytes)) {
        return dtn_error(DTN_REASON_STATE_SAVED, 0);
    }
    memcpy(values[TENSORS].data, tensors, saved.bytes);
    *status_of(values) = COMPLETE;
    return ENONE;
}
