/* Element-wise and row-wise operators. */
#include <cmath>
#include <cstring>
#include <limits>

#include "deuteron/cortex_m.h"
#include "deuteron/operators.h"
#include "layout.h"
#include "operators.h"

namespace deuteron
{
namespace
{

constexpr int64_t kAny = std::numeric_limits<int32_t>::max();

/* The bits of the float32 nearest to a scale, which must be positive. */
uint32_t scale_bits(Call &call, double scale)
{
    const float nearest = static_cast<float>(scale);
    call.need(nearest > 0.0F && std::isfinite(nearest), "a scale is not a positive float32 number");
    uint32_t bits;
    std::memcpy(&bits, &nearest, sizeof bits);
    return bits;
}

/* The smaller operand must repeat along the outer dimensions in memory. */
void need_repeated(Call &call, const Value &a, const Value &b, const Value &output)
{
    const Walk walk = broadcast(call, a, b, output, kAny);
    const bool repeated = walk.rank == 2 && walk.a[1] == 1 && walk.b[1] == 1 && (walk.a[0] == 0 || walk.b[0] == 0);
    call.need(same_layout(a.tensor.bytes >= b.tensor.bytes ? a : b, output) && (walk.rank < 2 || repeated),
              "its tensors differ in layout, or the smaller does not repeat along the outer dimensions");
}

void extremum(Call &call, dtn_operator_t run, bool largest)
{
    const Value a = call.tensor();
    const Value b = call.tensor();
    const Value output = call.tensor();
    dtn_cm_maximum_params_t params{};
    const Walk walk = broadcast(call, a, b, output, DTN_MAX_DIMENSION);
    write_dims(call, walk, sizeof params.dims / sizeof params.dims[0], params.dims, params.a_strides, params.b_strides);
    params.maximum = largest ? 1 : 0;
    call.run(run, params, {&a, &b}, {&output});
}

} // namespace

void quantize_per_tensor(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantize_per_tensor", stack, 7);
    const Value input = call.tensor();
    const uint32_t scale = scale_bits(call, call.real());
    const auto [zero_point, lowest, highest] = call.integers<3>();
    call.skip(); /* the output has the type */
    const Value output = call.tensor();
    const std::array<uint32_t, DTN_QUANTIZE_PARAMS> words = {
        scale, static_cast<uint32_t>(zero_point), static_cast<uint32_t>(lowest), static_cast<uint32_t>(highest)};
    call.need(same_layout(input, output), "its tensors differ in layout");
    call.run(dtn_op_quantize_per_tensor, words, {&input}, {&output});
}

void dequantize_per_tensor(Context &context, Stack stack)
{
    Call call(context, "cortex_m::dequantize_per_tensor", stack, 7);
    const Value input = call.tensor();
    const uint32_t scale = scale_bits(call, call.real());
    const int32_t zero_point = call.integer();
    call.skip(); /* the limits do not affect stored values */
    call.skip();
    call.skip(); /* the input has the type */
    const Value output = call.tensor();
    const std::array<uint32_t, DTN_DEQUANTIZE_PARAMS> words = {scale, static_cast<uint32_t>(zero_point)};
    call.need(same_layout(input, output), "its tensors differ in layout");
    call.run(dtn_op_dequantize_per_tensor, words, {&input}, {&output});
}

void quantized_add(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_add", stack, 14);
    const Value a = call.tensor();
    const auto a_numbers = call.integers<3>();
    const Value b = call.tensor();
    const auto b_numbers = call.integers<3>();
    const auto out_numbers = call.integers<3>();
    const auto limits = call.integers<2>();
    const Value output = call.tensor();
    dtn_cm_quantized_add_params_t params{};
    params.a_zp = a_numbers[0];
    params.a_multiplier = a_numbers[1];
    params.a_shift = a_numbers[2];
    params.b_zp = b_numbers[0];
    params.b_multiplier = b_numbers[1];
    params.b_shift = b_numbers[2];
    params.out_zp = out_numbers[0];
    params.out_multiplier = out_numbers[1];
    params.out_shift = out_numbers[2];
    params.act_min = limits[0];
    params.act_max = limits[1];
    need_repeated(call, a, b, output);
    call.run(dtn_cm_quantized_add, params, {&a, &b}, {&output});
}

void quantized_mul(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_mul", stack, 8);
    dtn_cm_quantized_mul_params_t params{};
    const Value a = call.tensor();
    params.a_zp = call.integer();
    const Value b = call.tensor();
    params.b_zp = call.integer();
    params.out_zp = call.integer();
    params.out_multiplier = call.integer();
    params.out_shift = call.integer();
    const Value output = call.tensor();
    need_repeated(call, a, b, output);
    call.run(dtn_cm_quantized_mul, params, {&a, &b}, {&output});
}

void quantized_div(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_div", stack, 7);
    dtn_cm_quantized_div_params_t params{};
    const Value a = call.tensor();
    params.a_zp = call.integer();
    const Value b = call.tensor();
    params.b_zp = call.integer();
    params.out_zp = call.integer();
    params.scale = static_cast<int32_t>(scale_bits(call, call.real()));
    const Value output = call.tensor();
    call.need(same_layout(a, output) && same_layout(b, output), "its tensors differ in layout");
    call.run(dtn_cm_quantized_div, params, {&a, &b}, {&output});
}

void quantized_activation(Context &context, Stack stack)
{
    Call call(context, "cortex_m::quantized_activation", stack, 3);
    const Value input = call.tensor();
    const Value table = call.tensor();
    const Value output = call.tensor();
    call.need(same_layout(input, output), "its tensors differ in layout");
    const dtn_cm_quantized_activation_params_t params = {static_cast<int32_t>(output.tensor.bytes)};
    call.run(dtn_cm_quantized_activation, params, {&input, &table}, {&output});
}

void minimum(Context &context, Stack stack)
{
    Call call(context, "cortex_m::minimum", stack, 3);
    extremum(call, dtn_cm_minimum, false);
}

void maximum(Context &context, Stack stack)
{
    Call call(context, "cortex_m::maximum", stack, 3);
    extremum(call, dtn_cm_maximum, true);
}

void softmax(Context &context, Stack stack)
{
    Call call(context, "cortex_m::softmax", stack, 8);
    const Value input = call.tensor();
    const int32_t dim = call.integer();
    call.skip(); /* only differences matter, not the input's zero point */
    const int32_t zero_point = call.integer();
    const int32_t multiplier = call.integer();
    const int32_t shift = call.integer();
    call.skip(); /* smaller differences give 0 anyway */
    const Value output = call.tensor();
    const auto rank = static_cast<int32_t>(input.rank);
    call.need(dim >= -rank && dim < rank, "it has no such dimension");
    call.need(zero_point == -128, "the zero point of its output is not -128");
    call.need(same_layout(input, output), "its tensors differ in layout");
    const size_t wanted = static_cast<size_t>(dim < 0 ? dim + rank : dim);
    dtn_cm_softmax_params_t params = {1, 1, 1, multiplier, shift};
    int32_t *part = &params.outer;
    for (size_t i = 0; i < input.rank && !call.failed(); i++) {
        const auto size = static_cast<int32_t>(input.sizes[input.order[i]]);
        if (input.order[i] == wanted) {
            params.depth = size;
            part = &params.inner;
            continue;
        }
        const int64_t product = int64_t{*part} * size;
        call.need(product <= kAny, "it has more rows than 32 bits can count");
        *part = static_cast<int32_t>(product);
    }
    call.run(dtn_cm_softmax, params, {&input}, {&output});
}

} // namespace deuteron
