/* The operators of the namespace `cortex_m` for ExecuTorch's runtime; register.cpp registers them. */
#pragma once

#include "call.h"

namespace deuteron
{

void quantize_per_tensor(Context &context, Stack stack);
void dequantize_per_tensor(Context &context, Stack stack);
void quantized_add(Context &context, Stack stack);
void quantized_mul(Context &context, Stack stack);
void quantized_div(Context &context, Stack stack);
void quantized_activation(Context &context, Stack stack);
void minimum(Context &context, Stack stack);
void maximum(Context &context, Stack stack);
void softmax(Context &context, Stack stack);
void transpose(Context &context, Stack stack);
void pad(Context &context, Stack stack);
/* aten::cat of int8 tensors with a channels-last output; ExecuTorch's own assumes contiguous tensors. */
void cat_channels_last(Context &context, Stack stack);
void quantized_linear(Context &context, Stack stack);
void quantized_batch_matmul(Context &context, Stack stack);

/* Maps: `nhwc` is true for operators whose shapes have this order. */
template <bool nhwc> void quantized_conv2d(Context &context, Stack stack);
template <bool nhwc> void quantized_depthwise_conv2d(Context &context, Stack stack);
template <bool nhwc> void quantized_transpose_conv2d(Context &context, Stack stack);
template <bool nhwc> void quantized_avg_pool2d(Context &context, Stack stack);
template <bool nhwc> void quantized_max_pool2d(Context &context, Stack stack);

} // namespace deuteron
