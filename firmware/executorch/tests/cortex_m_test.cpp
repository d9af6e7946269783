/* Calls of Cortex-M operators with tensors and lists that no sound program has: refused with a reason, under the
 * sanitizers; and a convolution with scratch memory at every address. */
#include "../cortex_m/operators.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

namespace
{

using executorch::aten::DimOrderType;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::StridesType;
using executorch::aten::TensorImpl;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::Error;
using executorch::runtime::EValue;

using Sizes = std::vector<SizesType>;
using Operator = void (*)(deuteron::Context &, deuteron::Stack);

int failures = 0;

void expect(bool good, const char *what)
{
    if (!good) {
        std::printf("%s\n", what);
        failures++;
    }
}

/* A tensor in the order channels last if it has rank 4, on memory of just its size that starts `shift` bytes off. */
class Tensor
{
  public:
    explicit Tensor(const Sizes &sizes, ScalarType type = ScalarType::Char, size_t shift = 0)
        : sizes_(sizes), order_(sizes.size()), strides_(sizes.size()),
          impl_(type, static_cast<ssize_t>(sizes.size()), sizes_.data(), nullptr, order_.data(), strides_.data())
    {
        std::iota(order_.begin(), order_.end(), static_cast<DimOrderType>(0));
        if (order_.size() == 4) {
            order_ = {0, 2, 3, 1};
        }
        uint32_t step = 1;
        for (size_t i = order_.size(); i-- > 0;) {
            strides_[order_[i]] = static_cast<StridesType>(step);
            step *= static_cast<uint32_t>(sizes_[order_[i]]);
        }
        memory_.reset(static_cast<uint8_t *>(std::malloc(impl_.nbytes() + shift)));
        impl_.set_data(memory_.get() + shift);
        std::memset(memory_.get(), 0, impl_.nbytes() + shift);
    }
    template <typename T> T *data()
    {
        return static_cast<T *>(impl_.mutable_data());
    }
    size_t bytes() const
    {
        return impl_.nbytes();
    }
    EValue value()
    {
        return EValue(executorch::aten::Tensor(&impl_));
    }
    void lie_at(void *memory)
    {
        impl_.set_data(memory);
    }
    void set_stride(size_t dim, StridesType stride)
    {
        strides_[dim] = stride;
    }
    void set_order(const std::vector<DimOrderType> &order)
    {
        order_.assign(order.begin(), order.end());
    }

  private:
    struct Free {
        void operator()(uint8_t *memory) const
        {
            std::free(memory);
        }
    };
    Sizes sizes_;
    std::vector<DimOrderType> order_;
    std::vector<StridesType> strides_;
    TensorImpl impl_;
    std::unique_ptr<uint8_t, Free> memory_;
};

/* A list as the runtime keeps it: values, and memory for what they become. */
template <typename T> struct List {
    explicit List(std::vector<EValue> items) : values(std::move(items)), memory(values.size() * sizeof(T))
    {
        for (EValue &value : values) {
            pointers.push_back(&value);
        }
        list = BoxedEvalueList<T>(pointers.data(), reinterpret_cast<T *>(memory.data()),
                                  static_cast<int>(pointers.size()));
    }
    EValue value()
    {
        return EValue(&list);
    }

    std::vector<EValue> values;
    std::vector<EValue *> pointers;
    std::vector<uint8_t> memory;
    BoxedEvalueList<T> list;
};

EValue number(int64_t value)
{
    return EValue(value);
}

/* Calls with these arguments, the last one twice as the runtime does. */
Error call(Operator run, std::vector<EValue> arguments)
{
    std::vector<EValue *> stack;
    for (EValue &argument : arguments) {
        stack.push_back(&argument);
    }
    stack.push_back(stack.back());
    executorch::runtime::KernelRuntimeContext context;
    run(context, deuteron::Stack(stack.data(), stack.size()));
    return context.failure_state();
}

Error softmax(Tensor &input, Tensor &output, int64_t dim)
{
    return call(deuteron::softmax, {input.value(), number(dim), number(0), number(-128), number(1 << 30), number(0),
                                    number(0), output.value()});
}

void test_softmax()
{
    Tensor input({2, 5});
    Tensor output({2, 5});
    expect(softmax(input, output, 1) == Error::Ok, "a sound softmax is refused");
    /* Without elements the sizes may be anything. */
    Tensor empty({1 << 20, 1 << 20, 0});
    expect(softmax(empty, empty, 2) == Error::InvalidArgument, "rows of nothing are taken");
    Tensor nowhere({2, 5});
    nowhere.lie_at(nullptr);
    expect(softmax(nowhere, output, 1) == Error::InvalidArgument, "no memory is taken");
    expect(softmax(input, nowhere, 1) == Error::InvalidArgument, "an output without memory is taken");
    Tensor disordered({2, 5});
    disordered.set_order({0, 200});
    expect(softmax(input, disordered, 1) == Error::InvalidArgument, "an order of other dimensions is taken");
}

Error transpose(Tensor &input, Tensor &output, std::vector<EValue> dims)
{
    List<int64_t> perm(std::move(dims));
    return call(deuteron::transpose, {input.value(), perm.value(), output.value()});
}

void test_transpose()
{
    Tensor input({2, 3}, ScalarType::Float);
    Tensor output({3, 2}, ScalarType::Float);
    expect(transpose(input, output, {number(1), number(0)}) == Error::Ok, "a sound transpose is refused");
    expect(transpose(input, output, {number(1), EValue(0.5)}) == Error::InvalidArgument, "half a dimension is taken");
    Tensor wide({0, 7}, ScalarType::Float);
    Tensor high({7, 0}, ScalarType::Float);
    wide.set_stride(1, INT32_MAX);
    expect(transpose(wide, high, {number(1), number(0)}) == Error::InvalidArgument, "strides without end are taken");
}

void test_cat()
{
    Tensor part({1, 2, 1, 3});
    Tensor output({1, 4, 1, 3});
    const auto cat = [&output](std::vector<EValue> parts) {
        List<executorch::aten::Tensor> list(std::move(parts));
        return call(deuteron::cat_channels_last, {list.value(), number(1), output.value()});
    };
    expect(cat({part.value(), part.value()}) == Error::Ok, "a sound concatenation is refused");
    expect(cat({part.value(), part.value(), part.value()}) == Error::InvalidArgument, "three parts are taken for two");
    expect(cat({part.value()}) == Error::InvalidArgument, "one part is taken for two");
    expect(cat({part.value(), number(1)}) == Error::InvalidArgument, "a number is taken for a part");
}

/* Scratch memory that no kernel wants: memory planning puts no bytes anywhere, also into a tensor. */
void test_no_scratch()
{
    Tensor input({1, 2, 4, 4});
    Tensor scratch({0}, ScalarType::Byte);
    Tensor output({1, 2, 2, 2});
    List<int64_t> twos({number(2), number(2)});
    List<int64_t> zeros({number(0), number(0)});
    const auto pool = [&] {
        return call(deuteron::quantized_avg_pool2d<false>,
                    {input.value(), twos.value(), twos.value(), zeros.value(), number(0), number(3), number(0),
                     number(0), scratch.value(), output.value()});
    };
    scratch.lie_at(input.data<uint8_t>() + 16);
    expect(pool() == Error::Ok, "no scratch memory inside the input is refused");
    output.lie_at(input.data<uint8_t>() + 16);
    expect(pool() == Error::InvalidArgument, "an output in the input is taken");
}

/* The result of a convolution whose scratch starts `shift` bytes off. */
std::vector<int8_t> convolved(size_t shift)
{
    Tensor input({1, 3, 5, 5});
    Tensor weights({2, 3, 3, 3});
    Tensor factors({2}, ScalarType::Int);
    Tensor shifts({2}, ScalarType::Int);
    Tensor scratch({4 * 3 * 3 * 3}, ScalarType::Byte, shift);
    Tensor output({1, 2, 3, 3});
    weights.set_order({0, 1, 2, 3});
    for (size_t dim = 0, step = 27; dim < 4; dim++, step /= 3) {
        weights.set_stride(dim, static_cast<StridesType>(step));
    }
    std::iota(input.data<int8_t>(), input.data<int8_t>() + input.bytes(), static_cast<int8_t>(-40));
    std::iota(weights.data<int8_t>(), weights.data<int8_t>() + weights.bytes(), static_cast<int8_t>(-20));
    std::fill_n(factors.data<int32_t>(), 2, 1 << 30);
    std::fill_n(shifts.data<int32_t>(), 2, -7);
    List<int64_t> ones({number(1), number(1)});
    List<int64_t> zeros({number(0), number(0)});
    const Error error =
        call(deuteron::quantized_conv2d<false>,
             {input.value(), weights.value(), EValue(), ones.value(), zeros.value(), ones.value(), number(3),
              number(-5), factors.value(), shifts.value(), number(-128), number(127), scratch.value(), output.value()});
    expect(error == Error::Ok, "a sound convolution is refused");
    return std::vector<int8_t>(output.data<int8_t>(), output.data<int8_t>() + output.bytes());
}

} // namespace

int main()
{
    test_softmax();
    test_transpose();
    test_cat();
    test_no_scratch();
    const std::vector<int8_t> expected = convolved(0);
    for (size_t shift = 1; shift < 5; shift++) {
        expect(convolved(shift) == expected, "a convolution depends on where its scratch starts");
    }
    return failures == 0 ? 0 : 1;
}
