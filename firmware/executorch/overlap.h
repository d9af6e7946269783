/* Checks that a delegate's outputs do not overlap its other memory. */
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>
#include <executorch/runtime/platform/log.h>

#include <cstddef>
#include <cstdint>

namespace deuteron
{

/* True if two blocks of memory share a byte. */
inline bool overlap(executorch::runtime::Span<const uint8_t> a, executorch::runtime::Span<const uint8_t> b)
{
    const auto a_start = reinterpret_cast<uintptr_t>(a.data());
    const auto b_start = reinterpret_cast<uintptr_t>(b.data());
    return !a.empty() && !b.empty() && a_start < b_start + b.size() && b_start < a_start + a.size();
}

/* Checks that no output shares memory with the payload, an input or another output; otherwise logs it and returns
 * InvalidArgument. `input(i)` and `output(i)` return the bytes of a tensor. */
template <typename Input, typename Output>
executorch::runtime::Error check_no_overlap(executorch::runtime::Span<const uint8_t> payload, size_t inputs,
                                            Input input, size_t outputs, Output output)
{
    for (size_t i = 0; i < outputs; i++) {
        ET_CHECK_OR_RETURN_ERROR(!overlap(output(i), payload), InvalidArgument,
                                 "Output %zu shares memory with the payload", i);
        for (size_t j = 0; j < inputs; j++) {
            ET_CHECK_OR_RETURN_ERROR(!overlap(output(i), input(j)), InvalidArgument,
                                     "Output %zu shares memory with input %zu", i, j);
        }
        for (size_t j = 0; j < i; j++) {
            ET_CHECK_OR_RETURN_ERROR(!overlap(output(i), output(j)), InvalidArgument,
                                     "Output %zu shares memory with output %zu", i, j);
        }
    }
    return executorch::runtime::Error::Ok;
}

} // namespace deuteron
