/* Checks the memory that the instructions of a .pte file write. */
#ifndef DEUTERON_EXECUTORCH_RUNNER_PLAN_H
#define DEUTERON_EXECUTORCH_RUNNER_PLAN_H

#include "flatbuffer.h"

namespace deuteron::runner
{

/* Checks for each method, as `deuteron.runtime.pte_memory` does, that no instruction writes to a constant, to its other
 * arguments or to memory that another value still needs; ExecuTorch's runtime does not check this. The file is
 * verified, and its segments are checked. Throws Failure. */
void check_plans(const FileBytes &file);

} // namespace deuteron::runner

#endif
