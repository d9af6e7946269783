#include "../cortex_m/element_loops.h"
#include "operator.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_operator_is_unary(call, DTN_TRANSPOSE_PARAMS)) {
        return false;
    }
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *output = &call->values[1];
    /* Division avoids overflow: factors that divide the size down to 1 have it as their product. */
    uint32_t left = input->bytes;
    for (uint32_t i = 0; i < DTN_TRANSPOSE_PARAMS; i++) {
        if (call->params[i] == 0 || left % call->params[i] != 0) {
            return false;
        }
        left /= call->params[i];
    }
    bool bytes = input->type == DTN_TYPE_U8 || input->type == DTN_TYPE_S8 || input->type == DTN_TYPE_BOOL;
    return left == 1 && bytes && output->type == input->type && output->bytes == input->bytes;
}

static void run(const dtn_operator_call_t *call)
{
    const uint8_t *from = (const uint8_t *)call->values[0].data;
    uint8_t *to = (uint8_t *)call->values[1].data;
    uint32_t rows = call->params[DTN_TRANSPOSE_ROWS];
    uint32_t columns = call->params[DTN_TRANSPOSE_COLUMNS];
    for (uint32_t batch = 0; batch < call->params[DTN_TRANSPOSE_BATCHES]; batch++) {
        /* Along the longer side, as each run has a set-up cost. */
        for (uint32_t row = 0; columns > rows && row < rows; row++) {
            dtn_cm_strided_copy(from + row * columns, 1, to + row, rows, columns);
        }
        for (uint32_t column = 0; columns <= rows && column < columns; column++) {
            dtn_cm_strided_copy(from + column, columns, to + column * rows, 1, rows);
        }
        from += rows * columns;
        to += rows * columns;
    }
}

int32_t dtn_op_transpose(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
