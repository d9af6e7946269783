/* deuteron-runner: runs an ExecuTorch program on this machine, its NPU partitions through Deuteron's driver. */
#include <executorch/runtime/platform/runtime.h>

#include <exception>
#include <filesystem>
#include <iostream>

#include "error.h"
#include "files.h"
#include "options.h"
#include "session.h"

namespace
{

using deuteron::runner::Options;
using deuteron::runner::Sample;

/* Files of NXP's simulator have no effect, so that a wrong path is only a warning. */
void warn_if_missing(const char *option, const std::string &path)
{
    if (!path.empty() && !std::filesystem::exists(path)) {
        std::cerr << "warning: `" << option << "`: no file `" << path << "`; it is not needed\n";
    }
}

void run(const Options &options)
{
    warn_if_missing("--firmware", options.firmware);
    warn_if_missing("--nsys", options.nsys);
    warn_if_missing("--nsys_config", options.nsys_config);
    if (!std::filesystem::is_regular_file(options.model)) {
        throw deuteron::runner::Failure("no program `" + options.model + "`", "`--model` expects a .pte file");
    }
    const std::filesystem::path output = options.output;
    deuteron::runner::Session session(options.model, options.method);
    for (const Sample &sample : deuteron::runner::find_samples(options)) {
        const size_t outputs = session.run(sample, output / sample.name);
        std::cout << sample.name << ": " << outputs << (outputs == 1 ? " output" : " outputs") << '\n';
    }
    session.write_trace(output / "trace.etdump");
}

} // namespace

int main(int argc, char **argv)
{
    executorch::runtime::runtime_init();
    try {
        const Options options = deuteron::runner::parse_options(argc, argv);
        if (options.help) {
            std::cout << deuteron::runner::help_text();
        } else {
            run(options);
        }
        return 0;
    } catch (const deuteron::runner::Failure &failure) {
        std::cerr << "error: " << failure.what() << '\n';
        if (!failure.hint.empty()) {
            std::cerr << "\nhint: " << failure.hint << '\n';
        }
        return dynamic_cast<const deuteron::runner::UsageError *>(&failure) != nullptr ? 2 : 1;
    } catch (const std::exception &failure) {
        std::cerr << "error: " << failure.what() << '\n';
        return 1;
    }
}
