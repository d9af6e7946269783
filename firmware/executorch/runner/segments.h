/* The segments of a .pte file. */
#pragma once

#include <cstddef>
#include <vector>

#include "flatbuffer.h"

namespace deuteron::runner
{

/* Bytes of a file from `start` to `end`. */
struct Segment {
    size_t start;
    size_t end;
};

/* The segments of a program. Checks, as `deuteron.runtime.pte` does, that they are inside the file, after the program's
 * flatbuffer, and do not overlap; ExecuTorch's runtime checks only the first, and each segment when it is loaded.
 * Throws Failure. */
std::vector<Segment> segments_of(const FileBytes &file);

} // namespace deuteron::runner
