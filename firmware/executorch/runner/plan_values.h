/* The values of a method, and the bytes that they have in its memories. */
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "flatbuffer.h"

namespace deuteron::runner
{

/* Throws Failure. */
[[noreturn]] void refuse(const std::string &what);

/* Throws Failure unless a condition holds. */
void check(bool good, const std::string &what);

/* Bytes of a tensor. Memories count from 1; negative ones are inputs and outputs of a method. */
struct Extent {
    int64_t memory;
    uint64_t start;
    uint64_t end;

    bool operator<(const Extent &other) const
    {
        return std::tie(memory, start, end) < std::tie(other.memory, other.start, other.end);
    }
    bool operator==(const Extent &other) const
    {
        return memory == other.memory && start == other.start && end == other.end;
    }
    bool overlaps(const Extent &other) const
    {
        return memory == other.memory && start < other.end && other.start < end;
    }
};

/* A value: a tensor, a list of tensors, or something else. */
struct Value {
    bool is_tensor = false;
    bool is_constant = false;
    bool has_content = false;
    bool is_placed = false;
    uint64_t bytes = 0;
    Extent place = {0, 0, 0};
    std::vector<int32_t> items;
};

/* The value of a table of ExecuTorch's schema. Throws Failure for tensors with sizes or types that it cannot have. */
Value value_of(const Table &table);

} // namespace deuteron::runner
