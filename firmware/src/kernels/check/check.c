#include "check.h"

#include "../requant.h"

bool dtn_are_dimensions(const int32_t *dims, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 1 || dims[i] > (int32_t)DTN_MAX_DIMENSION) {
            return false;
        }
    }
    return true;
}

bool dtn_has_size(const dtn_operand_t *operand, const int32_t *factors, size_t count)
{
    /* Stays below 2^32 before each product, so that 64 bits always hold it. */
    uint64_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size *= (uint64_t)factors[i];
        if (size > UINT32_MAX) {
            return false;
        }
    }
    return operand->bytes == size;
}

bool dtn_is_reach_inside(const dtn_operand_t *operand, int32_t start, const int32_t *dims, const int32_t *strides,
                         size_t rank)
{
    /* Each term is below 2^16 * 2^31 in magnitude; six of them fit. */
    int64_t first = start;
    int64_t last = start;
    for (size_t i = 0; i < rank; i++) {
        int64_t reach = (int64_t)(dims[i] - 1) * strides[i];
        if (reach < 0) {
            first += reach;
        } else {
            last += reach;
        }
    }
    return first >= 0 && last < operand->bytes;
}

bool dtn_are_forward(const int32_t *strides, size_t rank)
{
    for (size_t i = 0; i < rank; i++) {
        if (strides[i] < 0) {
            return false;
        }
    }
    return true;
}

bool dtn_is_factor(int32_t multiplier, int32_t shift)
{
    return multiplier >= 0 && shift >= 1 && shift <= 62;
}

bool dtn_is_mean_factor(int32_t multiplier, int32_t shift, int32_t count)
{
    /* Bits for count - 1; huge for a shift that is too large. */
    uint32_t bits = DTN_MAX_MEAN_SHIFT - (uint32_t)shift;
    return multiplier >= 0 && bits <= DTN_MAX_MEAN_SHIFT && (bits > 30 || (count - 1) >> bits == 0);
}

dtn_reason_t dtn_check_axis(const dtn_axis_t *axis)
{
    const int32_t *dims = axis->dims;
    if (!dtn_are_dimensions(dims, DTN_AXIS_DIMENSIONS)) {
        return DTN_REASON_PARAMETER;
    }
    /* Below 2^16 times at most 2^16: 32 bits hold both products, and the map with its pad. */
    uint32_t reach = (uint32_t)(dims[DTN_AXIS_KERNEL] - 1) * (uint32_t)dims[DTN_AXIS_DILATION];
    if (axis->pad < 0 || (uint32_t)axis->pad > reach) {
        return DTN_REASON_PARAMETER;
    }
    uint32_t last = (uint32_t)(dims[DTN_AXIS_OUT] - 1) * (uint32_t)dims[DTN_AXIS_STRIDE];
    return last < (uint32_t)dims[DTN_AXIS_IN] + (uint32_t)axis->pad ? DTN_OK : DTN_REASON_WINDOW;
}

static bool is_s8(int32_t value)
{
    return value >= INT8_MIN && value <= INT8_MAX;
}

dtn_reason_t dtn_check_range(int32_t in_zp, int32_t out_zp, int32_t act_min, int32_t act_max)
{
    bool ok = is_s8(in_zp) && is_s8(out_zp) && is_s8(act_min) && is_s8(act_max) && act_min <= act_max;
    return ok ? DTN_OK : DTN_REASON_PARAMETER;
}

dtn_reason_t dtn_check_requant(const dtn_operand_t *operand, int32_t count)
{
    const dtn_requant_row_t *rows = (const dtn_requant_row_t *)(const void *)operand->data;
    if (operand->bytes % DTN_REQUANT_ROW_BYTES != 0 || operand->bytes / DTN_REQUANT_ROW_BYTES != (uint32_t)count) {
        return DTN_REASON_OPERAND_SIZE;
    }
    for (int32_t i = 0; rows != NULL && i < count; i++) {
        if (!dtn_is_factor(rows[i].multiplier, rows[i].shift)) {
            return DTN_REASON_REQUANT_ROW;
        }
    }
    return DTN_OK;
}

/* Element i of the operand is element i of the output, whose size fits 32 bits. */
static bool is_contiguous(const int32_t *dims, const int32_t *strides, size_t rank)
{
    uint32_t step = 1;
    for (size_t i = rank; i-- > 0;) {
        if (dims[i] > 1 && (uint32_t)strides[i] != step) {
            return false;
        }
        step *= (uint32_t)dims[i];
    }
    return true;
}

dtn_reason_t dtn_check_broadcast(const dtn_call_t *call, const int32_t *dims, const int32_t *a_strides,
                                 const int32_t *b_strides)
{
    enum { RANK = sizeof((dtn_add_s8_params_t *)0)->dims / sizeof(int32_t) };
    const int32_t *const strides[] = {[DTN_ADD_S8_A] = a_strides, [DTN_ADD_S8_B] = b_strides};
    if (!dtn_are_dimensions(dims, RANK) || !dtn_are_forward(a_strides, RANK) || !dtn_are_forward(b_strides, RANK)) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_ADD_S8_OUTPUT], dims, RANK)) {
        return DTN_REASON_OPERAND_SIZE;
    }
    for (size_t i = DTN_ADD_S8_A; i <= DTN_ADD_S8_B; i++) {
        if (!dtn_is_reach_inside(&call->operands[i], 0, dims, strides[i], RANK)) {
            return DTN_REASON_OPERAND_SIZE;
        }
        if (call->operands[i].in_place && !is_contiguous(dims, strides[i], RANK)) {
            return DTN_REASON_OPERAND_OVERLAP;
        }
    }
    return DTN_OK;
}
