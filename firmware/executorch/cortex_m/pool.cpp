/* Pools. */
#include "deuteron/cortex_m.h"
#include "layout.h"
#include "operators.h"

namespace deuteron
{
namespace
{

using Pair = std::array<int32_t, 2>;

/* The fields of both records. */
template <typename Params>
Params shape_of(Call &call, const Value &input, const Value &output, bool nhwc, Pair kernel, Pair stride, Pair padding)
{
    const Map in = map_of(call, input, nhwc);
    const Map out = map_of(call, output, nhwc);
    call.need(in.batches == out.batches && in.channels == out.channels, "its maps differ in batches or channels");
    Params params{};
    params.batches = in.batches;
    params.in_h = in.height;
    params.in_w = in.width;
    params.channels = in.channels;
    params.out_h = out.height;
    params.out_w = out.width;
    params.kernel_h = kernel[0];
    params.kernel_w = kernel[1];
    params.stride_h = stride[0];
    params.stride_w = stride[1];
    params.pad_top = padding[0];
    params.pad_left = padding[1];
    return params;
}

} // namespace

template <bool nhwc> void quantized_avg_pool2d(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_avg_pool2d", stack, 10);
    const Value input = call.tensor();
    const Pair kernel = call.list<2>();
    const Pair stride = call.list<2>();
    const Pair padding = call.list<2>();
    call.skip(); /* implied by the output's size */
    const int32_t zero_point = call.integer();
    call.skip(); /* input and output have the same scale: the factor is 1 */
    call.skip();
    const Value scratch = call.tensor();
    const Value output = call.tensor();
    auto params = shape_of<dtn_cm_quantized_avg_pool2d_params_t>(call, input, output, nhwc, kernel, stride, padding);
    params.in_zp = zero_point;
    params.out_zp = zero_point;
    params.mult = 2; /* 2 / 2^1: a factor of 1 */
    params.shift = 1;
    params.act_min = INT8_MIN;
    params.act_max = INT8_MAX;
    call.run(dtn_cm_quantized_avg_pool2d, params, {&input}, {&scratch, &output});
}

template <bool nhwc> void quantized_max_pool2d(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_max_pool2d", stack, 11);
    const Value input = call.tensor();
    const Pair kernel = call.list<2>();
    const Pair stride = call.list<2>();
    const Pair padding = call.list<2>();
    const Pair dilation = call.list<2>();
    call.skip(); /* implied by the output's size */
    const auto zero_points = call.integers<2>();
    const auto limits = call.integers<2>();
    const Value output = call.tensor();
    call.need(dilation[0] == 1 && dilation[1] == 1, "its dilation is not 1");
    call.need(zero_points[0] == zero_points[1], "its zero points differ");
    auto params = shape_of<dtn_cm_quantized_max_pool2d_params_t>(call, input, output, nhwc, kernel, stride, padding);
    params.act_min = limits[0];
    params.act_max = limits[1];
    call.run(dtn_cm_quantized_max_pool2d, params, {&input}, {&output});
}

template void quantized_avg_pool2d<false>(Context &context, Stack stack);
template void quantized_avg_pool2d<true>(Context &context, Stack stack);
template void quantized_max_pool2d<false>(Context &context, Stack stack);
template void quantized_max_pool2d<true>(Context &context, Stack stack);

} // namespace deuteron
