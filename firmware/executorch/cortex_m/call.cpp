#include "call.h"

#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/platform/log.h>

#include <limits>

#include "../overlap.h"

namespace deuteron
{
namespace
{

using executorch::runtime::Error;
using executorch::runtime::EValue;

executorch::runtime::Span<const uint8_t> bytes_of(const dtn_tensor_t &tensor)
{
    return {static_cast<const uint8_t *>(tensor.data), tensor.bytes};
}

/* True if no output shares a byte with another value, as the executor promises to operators. */
bool are_disjoint(const dtn_operator_call_t &call)
{
    const uint32_t values = call.input_count + call.output_count;
    for (uint32_t i = call.input_count; i < values; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (overlap(bytes_of(call.values[i]), bytes_of(call.values[j]))) {
                return false;
            }
        }
    }
    return true;
}

} // namespace

Call::Call(Context &context, const char *name, Stack stack, size_t arguments)
    : context_(context), name_(name), stack_(stack)
{
    need(stack.size() == arguments + 1, "it has a wrong number of arguments");
}

void Call::need(bool good, const char *reason)
{
    if (good || failed_) {
        return;
    }
    failed_ = true;
    ET_LOG(Error, "%s cannot run: %s", name_, reason);
    context_.fail(Error::InvalidArgument);
}

EValue *Call::next()
{
    static EValue none;
    return at_ < stack_.size() ? stack_[at_++] : &none;
}

void Call::skip()
{
    next();
}

int32_t Call::word(int64_t number)
{
    const bool fits = number >= std::numeric_limits<int32_t>::min() && number <= std::numeric_limits<int32_t>::max();
    need(fits, "a number of its arguments does not fit into 32 bits");
    return fits ? static_cast<int32_t>(number) : 0;
}

int32_t Call::integer()
{
    const EValue *const value = next();
    need(value->isInt(), "an argument is not an integer");
    return value->isInt() ? word(value->toInt()) : 0;
}

double Call::real()
{
    const EValue *const value = next();
    need(value->isDouble(), "an argument is not a number");
    return value->isDouble() ? value->toDouble() : 0.0;
}

void Call::list(int32_t *numbers, size_t count)
{
    /* The runtime accepts any kind of list, and aborts the process if an item is not an integer. */
    const auto given = next()->tryToIntList();
    need(given.ok(), "an argument is not a list of integers");
    if (!given.ok()) {
        return;
    }
    const auto items = *given;
    const bool both = items.size() == 1 && count == 2;
    need(items.size() == count || both, "a list argument has a wrong length");
    for (size_t i = 0; i < count && !failed_; i++) {
        numbers[i] = word(items[both ? 0 : i]);
    }
}

Value Call::value_of(const executorch::aten::Tensor &tensor)
{
    Value value{};
    value.rank = static_cast<size_t>(tensor.dim());
    value.item = static_cast<size_t>(tensor.element_size());
    const bool small = value.rank <= kMaxRank && tensor.nbytes() <= std::numeric_limits<uint32_t>::max();
    need(small, "a tensor is larger than operators take");
    /* Devices align all values to 16 bytes; here only the alignment of the language is required. */
    const bool aligned = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % value.item == 0;
    need(aligned, "a tensor does not start at a multiple of its elements' size");
    const bool there = tensor.const_data_ptr() != nullptr || tensor.nbytes() == 0;
    need(there, "a tensor has no memory");
    if (!small || !aligned || !there) {
        return Value{};
    }
    value.tensor.data = const_cast<void *>(tensor.const_data_ptr());
    value.tensor.bytes = static_cast<uint32_t>(tensor.nbytes());
    value.tensor.type = static_cast<uint32_t>(tensor.scalar_type());
    for (size_t i = 0; i < value.rank; i++) {
        value.sizes[i] = static_cast<uint32_t>(tensor.sizes()[i]);
        value.order[i] = tensor.dim_order()[i];
        if (value.order[i] >= value.rank) {
            need(false, "the dim order of a tensor has an invalid dimension");
            return Value{};
        }
        value.strides[i] = static_cast<uint32_t>(tensor.strides()[i]);
    }
    return value;
}

Value Call::tensor()
{
    Value value{};
    need(optional_tensor(&value), "a tensor is missing");
    return value;
}

bool Call::optional_tensor(Value *value)
{
    const EValue *const given = next();
    need(given->isTensor() || given->isNone(), "an argument is not a tensor");
    if (!given->isTensor()) {
        return false;
    }
    *value = value_of(given->toTensor());
    return true;
}

size_t Call::tensors()
{
    const auto given = next()->tryToTensorList();
    need(given.ok(), "an argument is not a list of tensors");
    if (given.ok()) {
        list_ = *given;
    }
    return list_.size();
}

Value Call::tensor_of_list(size_t index)
{
    return value_of(list_[index]);
}

void Call::run_added(dtn_operator_t run_operator, size_t inputs, size_t outputs)
{
    std::array<Value, DTN_MAX_OPERATOR_VALUES> values{};
    std::array<const Value *, DTN_MAX_OPERATOR_VALUES> listed{};
    for (size_t i = 0; i < inputs; i++) {
        values[i] = tensor();
        listed[i] = &values[i];
    }
    skip(); /* the output has the shape */
    std::array<uint32_t, kMaxWords> words{};
    const auto given = next()->tryToIntList();
    const bool good = given.ok() && given->size() <= words.size();
    need(good, "its words are not a list of integers, or too many");
    const size_t count = good ? given->size() : 0;
    for (size_t i = 0; i < count; i++) {
        words[i] = static_cast<uint32_t>(word((*given)[i]));
    }
    for (size_t i = inputs; i < inputs + outputs; i++) {
        values[i] = tensor();
        listed[i] = &values[i];
    }
    run_words(run_operator, words.data(), static_cast<uint32_t>(count), Values(listed.data(), inputs),
              Values(listed.data() + inputs, outputs));
}

void Call::run_words(dtn_operator_t run_operator, const uint32_t *words, uint32_t count, Values inputs, Values outputs)
{
    dtn_operator_call_t call{};
    call.params = words;
    call.param_count = count;
    for (const Value *value : inputs) {
        /* NULL is an optional input that is left out. */
        if (value != nullptr) {
            call.values[call.input_count++] = value->tensor;
        }
    }
    for (const Value *value : outputs) {
        call.values[call.input_count + call.output_count++] = value->tensor;
    }
    if (failed_) {
        return;
    }
    need(are_disjoint(call), "an output shares memory with another tensor");
    need(failed_ || run_operator(&call, DTN_PHASE_CHECK) == DTN_OK,
         "its tensors and numbers do not fit together, or are out of range");
    need(failed_ || run_operator(&call, DTN_PHASE_RUN) == DTN_OK, "a constant tensor has numbers out of range");
    /* Logs the result for requests to the runtime, as ExecuTorch's own kernels do. */
    executorch::runtime::internal::event_tracer_log_evalue(context_.internal_event_tracer(),
                                                           *stack_[stack_.size() - 1]);
}

} // namespace deuteron
