/* The segments of a .pte file. */
#ifndef DEUTERON_EXECUTORCH_RUNNER_SEGMENTS_H
#define DEUTERON_EXECUTORCH_RUNNER_SEGMENTS_H

#include <string>

namespace deuteron::runner
{

/* Checks, as Deuteron's other readers do, that each segment of a program lies in its file and that they do not overlap;
 * ExecuTorch's runtime checks the first only, and each segment when it is loaded. Throws Failure. */
void check_segments(const std::string &model);

} // namespace deuteron::runner

#endif
