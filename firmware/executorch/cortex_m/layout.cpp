#include "layout.h"

namespace deuteron
{
namespace
{

/* The stride of an operand along a dimension of an output of rank `rank`, 0 if it repeats. */
int32_t step_of(Call &call, const Value &operand, const Value &output, size_t dim)
{
    const size_t missing = output.rank - operand.rank;
    if (dim < missing || operand.sizes[dim - missing] == 1) {
        return 0;
    }
    call.need(operand.sizes[dim - missing] == output.sizes[dim], "its tensors do not broadcast");
    return static_cast<int32_t>(operand.strides[dim - missing]);
}

} // namespace

bool is_in_order(const Value &value, const size_t *order)
{
    uint32_t step = 1;
    for (size_t i = value.rank; i-- > 0;) {
        const size_t dim = order[i];
        if (value.sizes[dim] != 1 && value.strides[dim] != step) {
            return false;
        }
        step *= value.sizes[dim];
    }
    return true;
}

Map map_of(Call &call, const Value &value, bool nhwc)
{
    static const size_t plain[] = {0, 1, 2, 3};
    static const size_t channels_last[] = {0, 2, 3, 1};
    const size_t *const order = nhwc ? plain : channels_last;
    const bool good = value.rank == 4 && is_in_order(value, order);
    call.need(good, nhwc ? "a map does not have four dimensions in the order of its shape"
                         : "a map does not have four dimensions in channels-last order");
    if (!good) {
        return Map{};
    }
    const auto size = [&](size_t i) { return static_cast<int32_t>(value.sizes[order[i]]); };
    return Map{size(0), size(1), size(2), size(3)};
}

bool same_layout(const Value &a, const Value &b)
{
    return a.rank == b.rank && a.sizes == b.sizes && is_in_order(a, b.order.data());
}

bool is_contiguous(const Value &value)
{
    std::array<size_t, kMaxRank> order{};
    for (size_t i = 0; i < value.rank; i++) {
        order[i] = i;
    }
    return is_in_order(value, order.data());
}

void append(Walk &walk, int32_t size, int32_t a, int32_t b, int64_t most)
{
    if (size == 1) {
        return;
    }
    const size_t last = walk.rank - 1;
    const bool merges = walk.rank > 0 && walk.a[last] == a * int64_t{size} && walk.b[last] == b * int64_t{size} &&
                        int64_t{walk.sizes[last]} * size <= most;
    if (!merges) {
        walk.rank++;
    }
    const size_t at = walk.rank - 1;
    walk.sizes[at] = merges ? walk.sizes[at] * size : size;
    walk.a[at] = a;
    walk.b[at] = b;
}

Walk broadcast(Call &call, const Value &a, const Value &b, const Value &output, int64_t most)
{
    Walk walk{};
    call.need(a.rank <= output.rank && b.rank <= output.rank, "its tensors do not broadcast");
    for (size_t i = 0; i < output.rank && !call.failed(); i++) {
        const size_t dim = output.order[i];
        append(walk, static_cast<int32_t>(output.sizes[dim]), step_of(call, a, output, dim),
               step_of(call, b, output, dim), most);
    }
    return walk;
}

void write_dims(Call &call, const Walk &walk, size_t rank, int32_t *sizes, int32_t *a, int32_t *b)
{
    call.need(walk.rank <= rank, "it needs more dimensions than operators support");
    const size_t missing = walk.rank <= rank ? rank - walk.rank : rank;
    for (size_t i = 0; i < rank; i++) {
        const bool used = i >= missing;
        sizes[i] = used ? walk.sizes[i - missing] : 1;
        a[i] = used ? walk.a[i - missing] : 0;
        b[i] = used ? walk.b[i - missing] : 0;
    }
}

} // namespace deuteron
