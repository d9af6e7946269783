#include "cortex_m.h"
#include "npu_kernel_call.h"

typedef dtn_cm_masked_softmax_params_t params_t;

enum { INPUT, TABLE, MASK, OUTPUT, VALUES };

/* The record without the rows of the mask, the input, the table and the output are those of the kernel. */
static dtn_call_t kernel_call(const dtn_operator_call_t *call, dtn_phase_t phase, dtn_softmax_s8_params_t *params)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    *params = (dtn_softmax_s8_params_t){p->rows, p->depth, p->mult, p->shift, p->out_zp};
    dtn_operator_call_t plain = {.input_count = 2, .output_count = 1};
    plain.values[0] = call->values[INPUT];
    plain.values[1] = call->values[TABLE];
    plain.values[2] = call->values[OUTPUT];
    return dtn_cm_kernel_call(&plain, phase, params);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return values[INPUT].type == DTN_TYPE_S8 && values[OUTPUT].type == DTN_TYPE_S8 &&
           values[TABLE].type == DTN_TYPE_S32 && values[MASK].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[MASK], DTN_CM_LIST(p->mask_rows, p->depth)) && p->rows % p->mask_rows == 0;
}

/*
 * The elements that the mask lets through, side by side in the output, go through the kernel where they lie: it reads
 * each element for the last time when it writes it. From the last on they then get to their places.
 */
static int32_t run_row(const params_t *p, const dtn_call_t *kernel, const int8_t *in, const int8_t *mask, int8_t *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        if (mask[i] != 0) {
            out[count++] = in[i];
        }
    }
    if (count > 0) {
        dtn_softmax_s8_params_t params = {1, count, p->mult, p->shift, p->out_zp};
        dtn_call_t one = *kernel;
        one.params = (const int32_t *)(const void *)&params;
        one.operands[DTN_SOFTMAX_S8_INPUT] = (dtn_operand_t){(uint8_t *)out, (uint32_t)count, false};
        one.operands[DTN_SOFTMAX_S8_OUTPUT] = (dtn_operand_t){(uint8_t *)out, (uint32_t)count, false};
        int32_t reason = dtn_cm_reason(dtn_k_softmax_s8(&one, DTN_PHASE_RUN));
        if (reason != DTN_OK) {
            return reason;
        }
    }
    for (int32_t i = p->depth - 1; i >= 0; i--) {
        out[i] = mask[i] != 0 ? out[--count] : (int8_t)p->out_zp;
    }
    return DTN_OK;
}

int32_t dtn_cm_masked_softmax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    dtn_softmax_s8_params_t params;
    if (phase == DTN_PHASE_CHECK && !is_valid(call)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t kernel = kernel_call(call, phase, &params);
    if (phase == DTN_PHASE_CHECK) {
        return dtn_cm_reason(dtn_k_softmax_s8(&kernel, phase));
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[INPUT].data;
    const int8_t *mask = (const int8_t *)call->values[MASK].data;
    int8_t *out = (int8_t *)call->values[OUTPUT].data;
    for (int32_t row = 0; row < p->rows; row++) {
        int32_t reason = run_row(p, &kernel, in, mask + (size_t)(row % p->mask_rows) * (size_t)p->depth, out);
        if (reason != DTN_OK) {
            return reason;
        }
        in += p->depth;
        out += p->depth;
    }
    return DTN_OK;
}
