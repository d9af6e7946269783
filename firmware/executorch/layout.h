/* From ExecuTorch's tensors to the byte buffers that the driver wants, and back: every copy the delegate makes. */
#ifndef DEUTERON_EXECUTORCH_LAYOUT_H
#define DEUTERON_EXECUTORCH_LAYOUT_H

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

/* One tensor of a run as the driver sees it. */
class Binding
{
  public:
    /* Checks the tensor against what the microcode expects (`bytes`, `channels_last`) and finds its buffer: the
     * tensor's own memory, or memory from the context's temporary allocator where the layout differs. A mismatch is
     * logged with the tensor's side and index and gives InvalidArgument; no memory gives MemoryAllocationFailed. */
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
    /* Whether `load` and `store` have something to do. */
    bool transposes() const
    {
        return buffer_ != tensor_data_;
    }
    /* Before the run, for an input: the port's copy (deuteron/io.h) brings the tensor to `staging`, which has room for
     * it and holds nothing now, and the core from there into its buffer. Internal, logged, when the copy failed. */
    executorch::runtime::Error load(void *staging) const;
    /* After the run, for an output: the same way back. */
    executorch::runtime::Error store(void *staging) const;

  private:
    executorch::runtime::Error copy(void *dst, const void *src) const;

    Side side_;
    size_t index_;
    void *tensor_data_;
    size_t bytes_;
    void *buffer_;
    /* The tensor as [batches][channels][positions], where buffer_ is not tensor_data_. */
    size_t batches_;
    size_t channels_;
    size_t positions_;
};

using Bindings = executorch::runtime::Span<const Binding>;

/* Checks that no output shares memory with the payload, an input or another output: the driver checks what it reads
 * before it writes. ExecuTorch's memory planning keeps them apart; InvalidArgument, logged, where a program does not.
 * Payloads of other partitions are not looked at: ExecuTorch's runtime lets any operator of a damaged program write to
 * a constant that lies in one. So each delegate keeps a copy of what it has checked (`Payload::move`), and readers of
 * files (`deuteron.runtime.pte_memory`, runner/plan.h) refuse every program that would write to a constant. */
executorch::runtime::Error check_apart(Bytes payload, Bindings inputs, Bindings outputs);

} // namespace deuteron

#endif
