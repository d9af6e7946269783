/* The delegate payload of a .pte: what ExecuTorch's NXP backend writes for each partition.
 *
 *   u8 inputs nI, u8 outputs nO, u8 input arguments,
 *   u8[nI] input format, u8[nO] output format, u8[nI] input map, u8[nO] output map, u8 version
 *   zero bytes up to a multiple of 16, then microcode, weights and kernels, each padded to a multiple of 16
 *
 * Format 1 asks for channels last, 0 takes the bytes as they lie. The maps give the argument of each NPU input and the
 * output of each NPU output. The payload version says which layout the microcode header has: 0 is A and 1 is B of
 * spec/microcode.md section 2.
 */
#ifndef DEUTERON_EXECUTORCH_PAYLOAD_H
#define DEUTERON_EXECUTORCH_PAYLOAD_H

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>

namespace deuteron
{

using Bytes = executorch::runtime::Span<const uint8_t>;

/* What the microcode and every constant must be aligned to, in bytes. */
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

    /* The bytes of the header, the microcode and, if wanted, the weights: what a run trusts once it is checked. */
    Bytes trusted(bool weights) const;
    /* Lets the view point to a copy of these bytes. */
    void move(Bytes from, const uint8_t *to);

    /* Byte sizes of the tensors, as the microcode has them. */
    uint32_t input_bytes(size_t index) const;
    uint32_t output_bytes(size_t index) const;
};

/* Fills `payload` from the bytes that the runtime hands to a delegate. Everything that is read, here or later through
 * the view, lies inside `bytes` when this returns Ok. Otherwise the cause is logged and the code is InvalidProgram, or
 * DelegateInvalidCompatibility for microcode of a vendor's or an unknown payload version. The commands inside the
 * microcode are the driver's to check. */
executorch::runtime::Error parse_payload(Bytes bytes, Payload *payload);

} // namespace deuteron

#endif
