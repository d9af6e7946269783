/* The delegate payload of a .pte: the output of ExecuTorch's NXP backend for each partition.
 *
 *   u8 inputs nI, u8 outputs nO, u8 input arguments,
 *   u8[nI] input format, u8[nO] output format, u8[nI] input map, u8[nO] output map, u8 version
 *   zero bytes up to a multiple of 16, then microcode, weights and kernels, each padded to a multiple of 16
 *
 * Format 1 requires channels last, 0 uses the bytes unchanged. The maps give the argument of each NPU input and the
 * output of each NPU output. The payload version selects the layout of the microcode header: 0 is A and 1 is B of
 * spec/microcode.md section 2.
 */
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>

namespace deuteron
{

using Bytes = executorch::runtime::Span<const uint8_t>;

/* Alignment of the microcode and every constant, in bytes. */
constexpr size_t kAlignment = 16;

/* A view of a payload; it points into the payload's bytes, or a copy of them, and owns nothing. */
struct Payload {
    const uint8_t *start;
    Bytes input_formats;
    Bytes output_formats;
    Bytes input_map;  /* each below input_args */
    Bytes output_map; /* counted from the first output argument; the caller knows how many there are */
    size_t input_args;

    Bytes microcode;
    Bytes weights;
    Bytes kernels;

    uint32_t scratch_bytes;
    uint32_t profile_bytes; /* 0 without profiling */
    uint32_t debug_bytes;
    uint32_t prefetch_bytes;

    size_t inputs() const
    {
        return input_map.size();
    }
    size_t outputs() const
    {
        return output_map.size();
    }

    /* The bytes of the header, the microcode and optionally the weights, which a run trusts after their check. */
    Bytes trusted(bool weights) const;
    /* Makes the view point to a copy of these bytes. */
    void move(Bytes from, const uint8_t *to);

    /* Byte sizes of the tensors, from the microcode. */
    uint32_t input_bytes(size_t index) const;
    uint32_t output_bytes(size_t index) const;
};

/* Fills `payload` from the bytes that the runtime passes to a delegate. If this returns Ok, everything that is read,
 * here or later through the view, is inside `bytes`. Otherwise it logs the cause and returns InvalidProgram, or
 * DelegateInvalidCompatibility for microcode of a vendor or an unknown payload version. The driver checks the
 * commands of the microcode. */
executorch::runtime::Error parse_payload(Bytes bytes, Payload *payload);

} // namespace deuteron
