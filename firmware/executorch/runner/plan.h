/* Checks the memory that the instructions of a .pte file write. */
#pragma once

#include "flatbuffer.h"

namespace deuteron::runner
{

/* Checks for each method, as `deuteron.runtime.pte_memory` does, that no instruction writes to a constant, to its other
 * arguments or to memory that another value still needs; ExecuTorch's runtime does not check this. The file is
 * verified, and its segments are checked. Throws Failure. */
void check_plans(const FileBytes &file);

} // namespace deuteron::runner
