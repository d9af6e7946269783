/* The segments of a .pte file. */
#ifndef DEUTERON_EXECUTORCH_RUNNER_SEGMENTS_H
#define DEUTERON_EXECUTORCH_RUNNER_SEGMENTS_H

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

/* The segments of a program. Checks, as `deuteron.runtime.pte` does, that they lie in the file, behind the program's
 * flatbuffer and apart from each other; ExecuTorch's runtime checks the first only, and each segment when it is loaded.
 * Throws Failure. */
std::vector<Segment> segments_of(const FileBytes &file);

} // namespace deuteron::runner

#endif
