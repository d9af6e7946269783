/* A call of a Cortex-M operator by ExecuTorch's runtime: reads the arguments in order, then checks and runs the C
 * operator. A wrong argument is logged and makes the call fail; reading continues with zeros. */
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "deuteron/bundle.h"

namespace deuteron
{

using Stack = executorch::runtime::Span<executorch::runtime::EValue *>;
using Context = executorch::runtime::KernelRuntimeContext;

constexpr size_t kMaxRank = 16;

/* Maximum words of a record. */
constexpr size_t kMaxWords = 64;

/* A tensor; of rank 0 and without memory if the argument is none. */
struct Value {
    dtn_tensor_t tensor;
    size_t item; /* bytes of an element */
    size_t rank;
    std::array<uint32_t, kMaxRank> sizes;
    std::array<size_t, kMaxRank> order;     /* dimensions from the outermost in memory */
    std::array<uint32_t, kMaxRank> strides; /* in elements, of each dimension */
};

class Call
{
  public:
    /* `arguments` counts the outputs too; the runtime passes the last one twice. */
    Call(Context &context, const char *name, Stack stack, size_t arguments);

    Value tensor();
    /* For an optional argument: returns whether it is given. */
    bool optional_tensor(Value *value);
    /* The number of tensors of a list, and one of them. */
    size_t tensors();
    Value tensor_of_list(size_t index);
    int32_t integer();
    double real();
    template <size_t count> std::array<int32_t, count> integers()
    {
        std::array<int32_t, count> numbers;
        for (int32_t &number : numbers) {
            number = integer();
        }
        return numbers;
    }
    /* Reads a list of this many numbers; a list of one is used for both of two. */
    template <size_t count> std::array<int32_t, count> list()
    {
        std::array<int32_t, count> numbers{};
        list(numbers.data(), count);
        return numbers;
    }
    void list(int32_t *numbers, size_t count);
    void skip();

    /* Makes the call fail for this reason, unless `good` is true or it has failed already. */
    void need(bool good, const char *reason);
    bool failed() const
    {
        return failed_;
    }

    /* Checks and runs the operator, unless the call has failed. `params` is its parameter record. */
    template <typename Params>
    void run(dtn_operator_t run_operator, const Params &params, std::initializer_list<const Value *> inputs,
             std::initializer_list<const Value *> outputs)
    {
        static_assert(sizeof(Params) % sizeof(uint32_t) == 0, "a record of words");
        run_words(run_operator, reinterpret_cast<const uint32_t *>(&params), sizeof(Params) / sizeof(uint32_t),
                  Values(inputs.begin(), inputs.size()), Values(outputs.begin(), outputs.size()));
    }

    /* Reads the arguments of an operator that Deuteron adds, then checks and runs it: tensors, the shape of the output,
     * the words of its record, the values that it writes. */
    void run_added(dtn_operator_t run_operator, size_t inputs, size_t outputs);

  private:
    using Values = executorch::runtime::Span<const Value *const>;

    executorch::runtime::EValue *next();
    int32_t word(int64_t number);
    Value value_of(const executorch::aten::Tensor &tensor);
    void run_words(dtn_operator_t run_operator, const uint32_t *words, uint32_t count, Values inputs, Values outputs);

    Context &context_;
    const char *name_;
    Stack stack_;
    executorch::aten::ArrayRef<executorch::aten::Tensor> list_;
    size_t at_ = 0;
    bool failed_ = false;
};

} // namespace deuteron
