/* Convolutions, linear layers and matrix products. */
#include "deuteron/cortex_m.h"
#include "layout.h"
#include "operators.h"

namespace deuteron
{
namespace
{

using Params = dtn_cm_quantized_conv2d_params_t;
using Pair = std::array<int32_t, 2>;

/* Common first and last arguments of all convolutions. */
struct Convolution {
    Value input;
    Value weights;
    Value bias;
    bool has_bias;
    Value multipliers;
    Value shifts;
    Value scratch;
    Value output;
    Params params;

    void read_tensors(Call &call)
    {
        input = call.tensor();
        weights = call.tensor();
        has_bias = call.optional_tensor(&bias);
        call.need(weights.rank == 4 && is_contiguous(weights), "its weights do not have four dimensions in order");
    }

    void read_plane(Call &call)
    {
        const Pair stride = call.list<2>();
        const Pair padding = call.list<2>();
        params.stride_h = stride[0];
        params.stride_w = stride[1];
        params.pad_h = padding[0];
        params.pad_w = padding[1];
    }

    void read_dilation(Call &call)
    {
        const Pair dilation = call.list<2>();
        params.dilation_h = dilation[0];
        params.dilation_w = dilation[1];
    }

    void read_numbers(Call &call)
    {
        params.in_offset = call.integer();
        params.out_offset = call.integer();
        multipliers = call.tensor();
        shifts = call.tensor();
        params.act_min = call.integer();
        params.act_max = call.integer();
        scratch = call.tensor();
    }

    /* Reads the output and fills in the sizes; dimension `out_dim` of the weights is the output's channels. */
    void read_output(Call &call, bool nhwc, size_t out_dim)
    {
        output = call.tensor();
        const Map in = map_of(call, input, nhwc);
        const Map out = map_of(call, output, nhwc);
        params.batches = in.batches;
        params.in_h = in.height;
        params.in_w = in.width;
        params.in_c = in.channels;
        params.out_h = out.height;
        params.out_w = out.width;
        params.out_c = out.channels;
        params.kernel_h = static_cast<int32_t>(weights.sizes[1]);
        params.kernel_w = static_cast<int32_t>(weights.sizes[2]);
        params.has_bias = has_bias ? 1 : 0;
        call.need(in.batches == out.batches && static_cast<int32_t>(weights.sizes[out_dim]) == out.channels,
                  "its maps and weights differ in batches or channels");
    }

    /* The number of input channels that one output channel reads, dimension 3 of the weights. */
    int32_t depth() const
    {
        return static_cast<int32_t>(weights.sizes[3]);
    }

    const Value *optional_bias() const
    {
        return has_bias ? &bias : nullptr;
    }
};

} // namespace

template <bool nhwc> void quantized_conv2d(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_conv2d", stack, 14);
    Convolution c{};
    c.read_tensors(call);
    c.read_plane(call);
    c.read_dilation(call);
    c.read_numbers(call);
    c.read_output(call, nhwc, 0);
    call.need(c.depth() > 0 && c.params.in_c % c.depth() == 0,
              "its channels are not a multiple of its weights' group size");
    c.params.groups = call.failed() ? 0 : c.params.in_c / c.depth();
    call.run(dtn_cm_quantized_conv2d, c.params, {&c.input, &c.weights, &c.multipliers, &c.shifts, c.optional_bias()},
             {&c.scratch, &c.output});
}

template <bool nhwc> void quantized_depthwise_conv2d(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_depthwise_conv2d", stack, 15);
    Convolution c{};
    c.read_tensors(call);
    c.read_plane(call);
    c.read_dilation(call);
    const int32_t multiplier = call.integer();
    c.read_numbers(call);
    c.read_output(call, nhwc, 3);
    c.params.groups = c.params.in_c;
    call.need(c.weights.sizes[0] == 1 && int64_t{c.params.in_c} * multiplier == c.params.out_c,
              "its weights are not depthwise");
    call.run(dtn_cm_quantized_depthwise_conv2d, c.params,
             {&c.input, &c.weights, &c.multipliers, &c.shifts, c.optional_bias()}, {&c.scratch, &c.output});
}

template <bool nhwc> void quantized_transpose_conv2d(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_transpose_conv2d", stack, 16);
    Convolution c{};
    c.read_tensors(call);
    c.read_plane(call);
    call.list<2>(); /* the output's padding is implied by its size */
    c.read_dilation(call);
    c.read_numbers(call);
    const Value output_scratch = call.tensor();
    c.read_output(call, nhwc, 0);
    c.params.groups = 1;
    call.need(c.depth() == c.params.in_c, "its weights are not of one group");
    call.run(dtn_cm_quantized_transpose_conv2d, c.params,
             {&c.input, &c.weights, &c.multipliers, &c.shifts, c.optional_bias()},
             {&c.scratch, &output_scratch, &c.output});
}

void quantized_linear(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_linear", stack, 12);
    dtn_cm_quantized_linear_params_t params{};
    const Value input = call.tensor();
    const Value weights = call.tensor();
    Value bias{};
    Value kernel_sum{};
    const bool has_bias = call.optional_tensor(&bias);
    const bool has_kernel_sum = call.optional_tensor(&kernel_sum);
    params.has_bias = has_bias ? 1 : 0;
    params.has_kernel_sum = has_kernel_sum ? 1 : 0;
    params.in_offset = call.integer();
    params.weight_offset = call.integer();
    params.out_offset = call.integer();
    params.multiplier = call.list<1>()[0];
    params.shift = call.list<1>()[0];
    params.act_max = call.integer();
    params.act_min = call.integer();
    const Value output = call.tensor();
    call.need(is_contiguous(input) && is_contiguous(weights) && is_contiguous(output) && weights.rank == 2 &&
                  weights.sizes[0] > 0,
              "its tensors are not contiguous");
    if (!call.failed()) {
        params.out_features = static_cast<int32_t>(weights.sizes[0]);
        params.in_features = static_cast<int32_t>(weights.sizes[1]);
        params.rows = static_cast<int32_t>(output.tensor.bytes / weights.sizes[0]);
    }
    call.run(dtn_cm_quantized_linear, params,
             {&input, &weights, has_bias ? &bias : nullptr, has_kernel_sum ? &kernel_sum : nullptr}, {&output});
}

void quantized_batch_matmul(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_batch_matmul", stack, 9);
    dtn_cm_quantized_batch_matmul_params_t params{};
    const Value a = call.tensor();
    params.a_offset = call.integer();
    const Value b = call.tensor();
    params.b_offset = call.integer();
    params.out_offset = call.integer();
    params.multiplier = call.integer();
    params.shift = call.integer();
    const Value scratch = call.tensor();
    const Value output = call.tensor();
    call.need(a.rank == 3 && b.rank == 3 && is_contiguous(a) && is_contiguous(b) && is_contiguous(output),
              "its tensors do not have three dimensions in order");
    params.batches = static_cast<int32_t>(a.sizes[0]);
    params.rows = static_cast<int32_t>(a.sizes[1]);
    params.depth = static_cast<int32_t>(a.sizes[2]);
    params.columns = static_cast<int32_t>(b.sizes[1]);
    call.run(dtn_cm_quantized_batch_matmul, params, {&a, &b}, {&scratch, &output});
}

template void quantized_conv2d<false>(Context &context, Stack stack);
template void quantized_conv2d<true>(Context &context, Stack stack);
template void quantized_depthwise_conv2d<false>(Context &context, Stack stack);
template void quantized_depthwise_conv2d<true>(Context &context, Stack stack);
template void quantized_transpose_conv2d<false>(Context &context, Stack stack);
template void quantized_transpose_conv2d<true>(Context &context, Stack stack);

} // namespace deuteron
