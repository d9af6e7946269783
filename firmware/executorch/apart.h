/* Whether what a delegate writes lies apart from all else that it uses. */
#ifndef DEUTERON_EXECUTORCH_APART_H
#define DEUTERON_EXECUTORCH_APART_H

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>
#include <executorch/runtime/platform/log.h>

#include <cstddef>
#include <cstdint>

namespace deuteron
{

/* Whether two blocks of memory have a byte in common. */
inline bool overlap(executorch::runtime::Span<const uint8_t> a, executorch::runtime::Span<const uint8_t> b)
{
    const auto a_start = reinterpret_cast<uintptr_t>(a.data());
    const auto b_start = reinterpret_cast<uintptr_t>(b.data());
    return !a.empty() && !b.empty() && a_start < b_start + b.size() && b_start < a_start + a.size();
}

/* Checks that no output shares memory with the payload, an input or another output; InvalidArgument, logged, where one
 * does. `input(i)` and `output(i)` give the bytes of a tensor. */
template <typename Input, typename Output>
executorch::runtime::Error check_apart(executorch::runtime::Span<const uint8_t> payload, size_t inputs, Input input,
                                       size_t outputs, Output output)
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

#endif
