/**
 * @file
 * The CPU operators of bundles: operators that ExecuTorch runs on the core (more in aten.h), and layout changes around
 * a delegate.
 *
 * Each is its own object; a bundle links those that it names. Results equal those of ExecuTorch's own kernels for
 * hosts, byte for byte.
 */
#ifndef DEUTERON_OPERATORS_H
#define DEUTERON_OPERATORS_H

#include "deuteron/aten.h"
#include "deuteron/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parameters of `dtn_op_quantize_per_tensor`. */
enum {
    DTN_QUANTIZE_SCALE = 0, /**< bits of the float32 nearest to the scale */
    DTN_QUANTIZE_ZERO_POINT = 1,
    DTN_QUANTIZE_MIN = 2, /**< MIN <= MAX, both in the range of the output's type; signed */
    DTN_QUANTIZE_MAX = 3,
    DTN_QUANTIZE_PARAMS = 4,
};

/**
 * One F32 input, one U8, S8 or S16 output of as many elements:
 * clamp(zero point + round(input * (1 / scale)), MIN, MAX), in float32, ties to even.
 *
 * NaN, and what rounds to a sum of 2^63 or more, gives MIN: C leaves these open, an x86-64 host does so.
 */
int32_t dtn_op_quantize_per_tensor(const dtn_operator_call_t *call, dtn_phase_t phase);

/** Parameters of `dtn_op_dequantize_per_tensor`. */
enum {
    DTN_DEQUANTIZE_SCALE = 0, /**< bits of the float32 nearest to the scale */
    DTN_DEQUANTIZE_ZERO_POINT = 1,
    DTN_DEQUANTIZE_PARAMS = 2,
};

/** One U8, S8 or S16 input, one F32 output of as many elements: (input - zero point) * scale, rounded to float32. */
int32_t dtn_op_dequantize_per_tensor(const dtn_operator_call_t *call, dtn_phase_t phase);

/** Parameters of `dtn_op_transpose`, all at least 1. */
enum {
    DTN_TRANSPOSE_BATCHES = 0,
    DTN_TRANSPOSE_ROWS = 1,
    DTN_TRANSPOSE_COLUMNS = 2,
    DTN_TRANSPOSE_PARAMS = 3,
};

/**
 * One input [batches, rows, columns], one output [batches, columns, rows], of the same one-byte type: NCHW to NHWC with
 * C rows and H*W columns, and back with H*W rows and C columns.
 */
int32_t dtn_op_transpose(const dtn_operator_call_t *call, dtn_phase_t phase);

/** Bytes of the status at the start of the state memory. */
#define DTN_STATE_STATUS_BYTES UINT32_C(16)

/** Parameters of `dtn_op_state_begin`: any number of these pairs. */
enum {
    DTN_STATE_FILL_BYTES = 0, /**< bytes that follow those of the pair before */
    DTN_STATE_FILL_VALUE = 1, /**< initial value of each, 0..255 */
    DTN_STATE_FILL_PARAMS = 2,
};

/**
 * Begins to change the state: precedes the copies to it, which are the last steps of a program.
 *
 * The outputs are the status and all tensors of the state. The input, if there is one, has the initial values of the
 * bytes that follow the filled ones. The check phase, and with it `dtn_executor_init`, sets the initial values. A run
 * ends here with DTN_REASON_STATE_LOST if the last change did not end.
 */
int32_t dtn_op_state_begin(const dtn_operator_call_t *call, dtn_phase_t phase);

/** Ends the change, as the last step: the input is all tensors of the state, the output its status. */
int32_t dtn_op_state_end(const dtn_operator_call_t *call, dtn_phase_t phase);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_OPERATORS_H */
