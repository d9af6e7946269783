/* Operators that move elements: transpose and pad. */
#include "deuteron/cortex_m.h"
#include "layout.h"
#include "operators.h"

namespace deuteron
{
namespace
{

/* The memory order that ExecuTorch's lowering assumed for the tensor. */
std::array<size_t, kMaxRank> lowered_order(const Value &value)
{
    std::array<size_t, kMaxRank> order{};
    for (size_t i = 0; i < value.rank; i++) {
        order[i] = i;
    }
    const bool channels_last =
        value.rank == 4 && (value.sizes[1] == 1 || (value.sizes[2] == 1 && value.sizes[3] == 1) ||
                            (value.order[0] == 0 && value.order[1] == 2));
    if (channels_last) {
        order = {0, 2, 3, 1};
    }
    return order;
}

/* Appends the bytes of an element and runs the copy, from offset `start` of the output on. */
void copy(Call &call, Walk &walk, const Value &input, const Value &output, uint32_t start)
{
    append(walk, static_cast<int32_t>(output.item), 1, 1, DTN_MAX_DIMENSION);
    dtn_cm_copy_params_t params{};
    params.out_start = static_cast<int32_t>(start);
    write_dims(call, walk, sizeof params.dims / sizeof params.dims[0], params.dims, params.in_strides,
               params.out_strides);
    call.run(dtn_cm_copy, params, {&input}, {&output});
}

} // namespace

void cat_channels_last(Context &context, Stack stack)
{
    Call call(context, "aten::cat", stack, 3);
    const size_t parts = call.tensors();
    const int32_t given = call.integer();
    const Value output = call.tensor();
    const auto rank = static_cast<int32_t>(output.rank);
    call.need(given >= -rank && given < rank, "it has no such dimension");
    const size_t dim = static_cast<size_t>(given < 0 ? given + rank : given);
    uint32_t start = 0;
    for (size_t part = 0; part < parts && !call.failed(); part++) {
        const Value input = call.tensor_of_list(part);
        call.need(input.rank == output.rank, "its tensors differ in rank");
        Walk walk{};
        for (size_t i = 0; i < output.rank && !call.failed(); i++) {
            const size_t d = output.order[i];
            call.need(d == dim || input.sizes[d] == output.sizes[d], "its tensors differ in size");
            append(walk, static_cast<int32_t>(input.sizes[d]), static_cast<int32_t>(input.strides[d]),
                   static_cast<int32_t>(output.strides[d]), DTN_MAX_DIMENSION);
        }
        call.need(input.sizes[dim] <= output.sizes[dim] - start, "its tensors differ in size");
        copy(call, walk, input, output, start * output.strides[dim]);
        start += input.sizes[dim];
    }
    call.need(call.failed() || start == output.sizes[dim], "its tensors differ in size");
}

void transpose(Context &context, Stack stack)
{
    Call call(context, "cortex_m::transpose", stack, 3);
    const Value input = call.tensor();
    std::array<int32_t, kMaxRank> perm{};
    call.list(perm.data(), input.rank);
    const Value output = call.tensor();
    call.need(input.rank == output.rank, "its tensors differ in rank");
    Walk walk{};
    /* Unsigned: tensors without elements can have strides that overflow in bytes. */
    const auto bytes = [&input](uint32_t stride) { return static_cast<int32_t>(stride * input.item); };
    for (size_t i = 0; i < output.rank && !call.failed(); i++) {
        const size_t dim = output.order[i];
        const bool good = perm[dim] >= 0 && static_cast<size_t>(perm[dim]) < input.rank &&
                          input.sizes[static_cast<size_t>(perm[dim])] == output.sizes[dim];
        call.need(good, "its output is not its input with these dimensions exchanged");
        if (good) {
            append(walk, static_cast<int32_t>(output.sizes[dim]), bytes(input.strides[static_cast<size_t>(perm[dim])]),
                   bytes(output.strides[dim]), DTN_MAX_DIMENSION);
        }
    }
    copy(call, walk, input, output, 0);
}

void pad(Context &context, Stack stack)
{
    Call call(context, "cortex_m::pad", stack, 5);
    constexpr size_t rank = 4;
    const Value input = call.tensor();
    const auto before = call.list<rank>();
    const auto after = call.list<rank>();
    dtn_cm_pad_params_t params{};
    params.value = call.integer();
    const Value output = call.tensor();
    call.need(input.rank == output.rank && input.rank <= rank, "its tensors have more than four dimensions");
    const std::array<size_t, kMaxRank> order = lowered_order(input);
    call.need(is_in_order(input, order.data()) && is_in_order(output, order.data()), "its tensors differ in layout");
    for (size_t i = 0; i < rank && !call.failed(); i++) {
        const size_t missing = rank - input.rank;
        const bool there = i >= missing;
        params.dims[i] = there ? static_cast<int32_t>(input.sizes[order[i - missing]]) : 1;
        params.before[i] = before[i];
        params.after[i] = after[i];
        const int64_t size = int64_t{params.dims[i]} + before[i] + after[i];
        call.need(size == (there ? int64_t{output.sizes[order[i - missing]]} : 1), "its output has another size");
    }
    call.run(dtn_cm_pad, params, {&input}, {&output});
}

} // namespace deuteron
