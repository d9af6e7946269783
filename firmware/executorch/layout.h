/* Converts ExecuTorch's tensors to the driver's buffers, and back: every copy that the delegate makes. */
#pragma once

#include <executorch/runtime/backend/backend_execution_context.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>

#include "payload.h"

namespace deuteron
{

enum class Side { kInput, kOutput };

/* One tensor of a run for the driver. */
class Binding
{
  public:
    /* Checks the tensor against the microcode's (`bytes`, `channels_last`) and selects its buffer: the tensor's own
     * memory, or memory from the context's temporary allocator if the layout differs. Logs a mismatch with the tensor's
     * side and index and returns InvalidArgument; without memory it returns MemoryAllocationFailed. */
    executorch::runtime::Error bind(executorch::runtime::BackendExecutionContext &context,
                                    const executorch::aten::Tensor &tensor, Side side, size_t index, size_t bytes,
                                    bool channels_last);

    void *buffer() const
    {
        return buffer_;
    }
    /* The tensor's own memory. */
    Bytes memory() const
    {
        return Bytes(static_cast<const uint8_t *>(tensor_data_), bytes_);
    }
    /* True if `load` and `store` must be called. */
    bool transposes() const
    {
        return buffer_ != tensor_data_;
    }
    /* Before the run, for an input: the port (deuteron/io.h) copies the tensor to `staging`, which has its size and is
     * unused, and the core transposes it from there into its buffer. Logs a failed copy and returns Internal. */
    executorch::runtime::Error load(void *staging) const;
    /* After the run, for an output: the reverse. */
    executorch::runtime::Error store(void *staging) const;

  private:
    executorch::runtime::Error copy(void *dst, const void *src) const;

    Side side_;
    size_t index_;
    void *tensor_data_;
    size_t bytes_;
    void *buffer_;
    /* The tensor as [batches][channels][positions], if buffer_ is not tensor_data_. */
    size_t batches_;
    size_t channels_;
    size_t positions_;
};

using Bindings = executorch::runtime::Span<const Binding>;

/* Checks that no output shares memory with the payload, an input or another output, as the driver checks what it reads
 * before it writes. ExecuTorch's memory planning ensures this; otherwise it logs and returns InvalidArgument.
 * Payloads of other partitions are not checked: ExecuTorch's runtime lets any operator of a damaged program write to
 * constants there. So each delegate keeps a copy of the checked bytes (`Payload::move`), and readers of files
 * (`deuteron.runtime.pte_memory`, runner/plan.h) reject every program that would write to a constant. */
executorch::runtime::Error check_no_overlap(Bytes payload, Bindings inputs, Bindings outputs);

} // namespace deuteron
