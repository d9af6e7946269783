/* The runner's command line: that of ExecuTorch's nxp_executor_runner, plus --method and --help. */
#pragma once

#include <string>

namespace deuteron::runner
{

struct Options {
    std::string model;
    std::string dataset;
    std::string inputs;
    std::string output = "results";
    std::string method;
    /* Files for NXP's simulator; ignored, because the NPU's kernels run in this process. */
    std::string firmware;
    std::string nsys;
    std::string nsys_config;
    bool help = false;
};

/* Options of a command line; `--name value` and `--name=value`. Throws UsageError. */
Options parse_options(int argc, char **argv);

/* The text of --help. */
std::string help_text();

} // namespace deuteron::runner
