#include "layout.h"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "copy.h"
#include "overlap.h"

namespace deuteron
{
namespace
{

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;

/* Writes each [rows][columns] matrix of `src` transposed to `dst`. */
void transpose(uint8_t *dst, const uint8_t *src, size_t matrices, size_t rows, size_t columns)
{
    for (size_t m = 0; m < matrices; m++) {
        for (size_t r = 0; r < rows; r++) {
            for (size_t c = 0; c < columns; c++) {
                dst[c * rows + r] = src[r * columns + c];
            }
        }
        dst += rows * columns;
        src += rows * columns;
    }
}

const char *name_of(Side side)
{
    return side == Side::kInput ? "Input" : "Output";
}

} // namespace

Error Binding::bind(executorch::runtime::BackendExecutionContext &context, const Tensor &tensor, Side side,
                    size_t index, size_t bytes, bool channels_last)
{
    const char *const what = name_of(side);
    ET_CHECK_OR_RETURN_ERROR(tensor.scalar_type() == ScalarType::Char, InvalidArgument,
                             "%s %zu has elements of type %s, the NPU's are %s", what, index,
                             executorch::runtime::toString(tensor.scalar_type()),
                             executorch::runtime::toString(ScalarType::Char));
    ET_CHECK_OR_RETURN_ERROR(tensor.nbytes() == bytes, InvalidArgument, "%s %zu has %zu bytes, the microcode %zu", what,
                             index, tensor.nbytes(), bytes);
    const auto order = tensor.dim_order();
    const bool contiguous = executorch::runtime::is_contiguous_dim_order(order.data(), order.size());
    const bool already_last =
        channels_last && executorch::runtime::is_channels_last_dim_order(order.data(), order.size());
    ET_CHECK_OR_RETURN_ERROR(contiguous || already_last, InvalidArgument,
                             "%s %zu has an unsupported dim order; allowed: %s", what, index,
                             channels_last ? "contiguous, channels last" : "contiguous");

    side_ = side;
    index_ = index;
    tensor_data_ = side == Side::kInput ? const_cast<void *>(tensor.const_data_ptr()) : tensor.mutable_data_ptr();
    bytes_ = bytes;
    buffer_ = tensor_data_;
    ET_CHECK_OR_RETURN_ERROR(tensor_data_ != nullptr || bytes == 0, InvalidArgument, "%s %zu has no memory", what,
                             index);
    const ArrayRef<executorch::aten::SizesType> sizes = tensor.sizes();
    /* Channels are dimension 1 of any rank, as in the compiler; below rank 3 both layouts are equal. */
    if (!channels_last || already_last || sizes.size() < 3 || sizes[1] == 1) {
        return Error::Ok;
    }
    batches_ = static_cast<size_t>(sizes[0]);
    channels_ = static_cast<size_t>(sizes[1]);
    positions_ = 1;
    for (size_t d = 2; d < sizes.size(); d++) {
        positions_ *= static_cast<size_t>(sizes[d]);
    }
    buffer_ = context.allocate(bytes, kAlignment);
    ET_CHECK_OR_RETURN_ERROR(buffer_ != nullptr, MemoryAllocationFailed, "No %zu bytes to reorder %s %zu", bytes, what,
                             index);
    return Error::Ok;
}

Error Binding::copy(void *dst, const void *src) const
{
    ET_CHECK_OR_RETURN_ERROR(copy_tensor(dst, src, bytes_), Internal, "The copy of %s %zu failed", name_of(side_),
                             index_);
    return Error::Ok;
}

Error Binding::load(void *staging) const
{
    if (transposes()) {
        ET_CHECK_OK_OR_RETURN_ERROR(copy(staging, tensor_data_));
        transpose(static_cast<uint8_t *>(buffer_), static_cast<const uint8_t *>(staging), batches_, channels_,
                  positions_);
    }
    return Error::Ok;
}

Error Binding::store(void *staging) const
{
    if (transposes()) {
        transpose(static_cast<uint8_t *>(staging), static_cast<const uint8_t *>(buffer_), batches_, positions_,
                  channels_);
        ET_CHECK_OK_OR_RETURN_ERROR(copy(tensor_data_, staging));
    }
    return Error::Ok;
}

Error check_no_overlap(Bytes payload, Bindings inputs, Bindings outputs)
{
    const auto memory = [](Bindings bindings) { return [bindings](size_t i) { return bindings[i].memory(); }; };
    return check_no_overlap(payload, inputs.size(), memory(inputs), outputs.size(), memory(outputs));
}

} // namespace deuteron
