/* Format of ExecuTorch's Ethos-U backend for partitions: blocks of a 32-byte header and bytes.
 *
 *   char[16] name, u32 size, u8 external, 11 bytes reserved; then `size` bytes, and zeros up to a multiple of 16
 *
 * The first block is `vela_bin_stream`, the last `vela_end_stream`; between them are `cmd_data`, `weight_data`,
 * `scratch_size` (u32), `inputs` and `outputs`: i32 count, then for each tensor i32 shape[6], element size, offset in
 * the scratch memory, region. An external block has the key of its bytes in the program's named data.
 */
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>

namespace deuteron
{
namespace ethosu
{

using Bytes = executorch::runtime::Span<const uint8_t>;

/* Alignment of blocks, scratch memory and commands, in bytes. */
constexpr size_t kAlignment = 16;

/* A tensor of the partition in the scratch memory. */
struct Tensor {
    size_t bytes;
    size_t element_bytes;
    size_t offset;
};

/* The tensors of one side; each access reads the block, so they are valid only while nothing changes it after its
 * check. */
class Tensors
{
  public:
    Tensors() = default;
    Tensors(Bytes records, size_t count) : records_(records), count_(count)
    {
    }
    size_t count() const
    {
        return count_;
    }
    Bytes records() const
    {
        return records_;
    }
    /* Tensor `index`; only of a checked list. */
    Tensor operator[](size_t index) const;

  private:
    Bytes records_;
    size_t count_ = 0;
};

/* A view of a partition; it points into the program's bytes, or into named data held by `external`. */
struct Blob {
    Bytes commands;
    Bytes weights;
    size_t scratch_bytes;
    Tensors inputs;
    Tensors outputs;
    executorch::runtime::FreeableBuffer external;
};

/* Fills `blob`. If this returns Ok, every tensor is inside the scratch memory, and the inputs do not overlap. Otherwise
 * it logs the cause and returns InvalidProgram, or the error of the named data. */
executorch::runtime::Error parse_blob(Bytes bytes, const executorch::runtime::NamedDataMap *data, Blob *blob);

} // namespace ethosu
} // namespace deuteron
