/* Binding: the tensors that it refuses, and the bytes that it hands to the driver and back, for tensors of every rank.
 */
#include "layout.h"

#include "deuteron/io.h"

#include <executorch/runtime/core/memory_allocator.h>

#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

namespace
{

using deuteron::Binding;
using deuteron::Side;
using executorch::aten::DimOrderType;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::StridesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::Error;
using executorch::runtime::MemoryAllocator;

using Sizes = std::vector<SizesType>;
using Order = std::vector<DimOrderType>;

constexpr size_t kAmple = 4096;

int failures = 0;

void expect(bool good, const char *what, size_t rank)
{
    if (!good) {
        std::printf("%s (rank %zu)\n", what, rank);
        failures++;
    }
}

/* Copies of the port since the last look, and whether they fail. */
size_t copies = 0;
bool copies_fail = false;
bool copies_are_busy = false;

size_t copied()
{
    const size_t count = copies;
    copies = 0;
    return count;
}

Order in_order(size_t rank)
{
    Order order(rank);
    std::iota(order.begin(), order.end(), static_cast<DimOrderType>(0));
    return order;
}

/* A tensor with memory that counts up from 0, a binding, and what else it takes to bind them. */
struct Subject {
    Sizes sizes;
    Order order;
    std::vector<StridesType> strides;
    std::vector<uint8_t> data;
    std::vector<uint8_t> memory;
    TensorImpl impl;
    MemoryAllocator allocator;
    BackendExecutionContext context;
    Binding binding;

    Subject(const Sizes &sizes_in, const Order &order_in, ScalarType type = ScalarType::Char, size_t temporary = kAmple)
        : sizes(sizes_in), order(order_in), strides(sizes.size()), data(kAmple), memory(kAmple),
          impl(type, static_cast<ssize_t>(sizes.size()), sizes.data(), data.data(), order.data(), strides.data()),
          allocator(static_cast<uint32_t>(temporary), memory.data()), context(nullptr, &allocator)
    {
        std::iota(data.begin(), data.end(), static_cast<uint8_t>(0));
    }

    size_t bytes() const
    {
        return static_cast<size_t>(impl.numel());
    }
    Error bind(Side side, bool channels_last, size_t off = 0)
    {
        return binding.bind(context, Tensor(&impl), side, 7, bytes() + off, channels_last);
    }
    uint8_t *buffer()
    {
        return static_cast<uint8_t *>(binding.buffer());
    }
};

/* A contiguous tensor where the driver wants dimension 1 innermost. */
void test_reordered(const Sizes &sizes)
{
    const size_t rank = sizes.size();
    const size_t channels = static_cast<size_t>(sizes[1]);
    Subject input(sizes, in_order(rank));
    Subject output(sizes, in_order(rank));
    expect(input.bind(Side::kInput, true) == Error::Ok, "an input is refused", rank);
    expect(output.bind(Side::kOutput, true) == Error::Ok, "an output is refused", rank);
    std::vector<uint8_t> between(input.bytes());
    /* A copy that fails is an error, and the next one right. */
    copies_fail = true;
    expect(input.binding.load(between.data()) == Error::Internal, "a failed copy is no error", rank);
    expect(output.binding.store(between.data()) == Error::Internal, "a failed copy is no error", rank);
    copies_fail = false;
    /* The core takes the place of a port that copies for another. */
    copies_are_busy = true;
    expect(input.binding.load(between.data()) == Error::Ok, "an input waits for another's copy", rank);
    expect(std::memcmp(between.data(), input.data.data(), input.bytes()) == 0, "a busy port's copy is left out", rank);
    copies_are_busy = false;
    copied();
    expect(input.binding.load(between.data()) == Error::Ok && copied() == 1, "an input passes the port's copy by",
           rank);
    std::iota(output.buffer(), output.buffer() + output.bytes(), static_cast<uint8_t>(100));
    expect(output.binding.store(between.data()) == Error::Ok && copied() == 1, "an output passes the port's copy by",
           rank);
    const size_t positions = input.bytes() / channels / static_cast<size_t>(sizes[0]);
    for (size_t i = 0; i < input.bytes(); i++) {
        const size_t position = i % positions;
        const size_t channel = i / positions % channels;
        const size_t batch = i / positions / channels;
        const size_t last = (batch * positions + position) * channels + channel;
        expect(input.buffer()[last] == input.data[i], "an input is in another order", rank);
        expect(output.data[i] == output.buffer()[last], "an output is in another order", rank);
    }
}

/* A tensor whose own memory is what the driver wants. */
void test_as_it_lies(const Sizes &sizes, const Order &order, bool channels_last)
{
    for (const Side side : {Side::kInput, Side::kOutput}) {
        Subject subject(sizes, order, ScalarType::Char, 0);
        expect(subject.bind(side, channels_last) == Error::Ok, "a tensor is refused", sizes.size());
        expect(subject.buffer() == subject.data.data(), "a tensor is copied", sizes.size());
        copied();
        const bool good =
            subject.binding.load(nullptr) == Error::Ok && subject.binding.store(nullptr) == Error::Ok && copied() == 0;
        expect(good, "a tensor that stays where it is is copied", sizes.size());
    }
}

void test_refused()
{
    const Sizes sizes = {1, 2, 3, 4};
    Subject unsigned_bytes(sizes, in_order(4), ScalarType::Byte);
    Subject floats(sizes, in_order(4), ScalarType::Float);
    Subject other_size(sizes, in_order(4));
    Subject widths_first(sizes, {0, 3, 2, 1});
    Subject last(sizes, {0, 2, 3, 1});
    Subject rank_3(Sizes{1, 2, 3}, {0, 2, 1});
    Subject no_memory(sizes, in_order(4), ScalarType::Char, 16);
    expect(unsigned_bytes.bind(Side::kInput, false) == Error::InvalidArgument, "uint8 is taken", 4);
    expect(floats.bind(Side::kOutput, false) == Error::InvalidArgument, "float is taken", 4);
    expect(other_size.bind(Side::kOutput, false, 1) == Error::InvalidArgument, "another size is taken", 4);
    expect(widths_first.bind(Side::kInput, true) == Error::InvalidArgument, "another dim order is taken", 4);
    expect(last.bind(Side::kInput, false) == Error::InvalidArgument, "channels last is taken", 4);
    expect(rank_3.bind(Side::kInput, true) == Error::InvalidArgument, "channels last is taken", 3);
    expect(no_memory.bind(Side::kInput, true) == Error::MemoryAllocationFailed, "no memory is enough", 4);
}

/* A binding of 24 bytes from `start` of a block. */
Binding bound(Subject &subject, uint8_t *start)
{
    subject.impl.set_data(start);
    expect(subject.bind(Side::kOutput, false) == Error::Ok, "a tensor is refused", 4);
    return subject.binding;
}

void test_apart()
{
    const Sizes sizes = {1, 2, 3, 4};
    Subject subject(sizes, in_order(4));
    std::vector<uint8_t> block(kAmple);
    const deuteron::Bytes payload(block.data() + 100, 100);
    const Binding inputs[] = {bound(subject, block.data() + 200), bound(subject, block.data() + 210)};
    const auto check = [&](size_t first, size_t second) {
        const Binding outputs[] = {bound(subject, block.data() + first), bound(subject, block.data() + second)};
        return deuteron::check_no_overlap(payload, deuteron::Bindings(inputs, 2), deuteron::Bindings(outputs, 2));
    };
    expect(check(76, 234) == Error::Ok, "neighbours are refused", 4);
    expect(check(234, 258) == Error::Ok, "outputs side by side are refused", 4);
    expect(check(77, 300) == Error::InvalidArgument, "an output in the payload is taken", 4);
    expect(check(300, 120) == Error::InvalidArgument, "an output in the payload is taken", 4);
    expect(check(233, 300) == Error::InvalidArgument, "an output in an input is taken", 4);
    expect(check(300, 323) == Error::InvalidArgument, "an output in an output is taken", 4);
}

} // namespace

int32_t dtn_io_copy(void *dst, const void *src, size_t size)
{
    copies++;
    if (copies_are_busy) {
        return DTN_IO_BUSY;
    }
    std::memcpy(dst, src, copies_fail ? size / 2 : size);
    return copies_fail ? -1 : 0;
}

int main()
{
    test_reordered({2, 3, 4});
    test_reordered({2, 3, 4, 5});
    test_reordered({1, 3, 2, 2});
    test_reordered({2, 3, 2, 2, 2});
    test_as_it_lies({5, 3}, in_order(2), true);
    test_as_it_lies({7}, in_order(1), true);
    test_as_it_lies({2, 1, 4}, in_order(3), true);
    test_as_it_lies({2, 3, 4, 5}, {0, 2, 3, 1}, true);
    test_as_it_lies({2, 3, 2, 2, 2}, {0, 2, 3, 4, 1}, true);
    test_as_it_lies({2, 3, 4, 5}, in_order(4), false);
    test_refused();
    test_apart();
    return failures == 0 ? 0 : 1;
}
