#include "options.h"

#include <array>

#include "error.h"

namespace deuteron::runner
{
namespace
{

struct Row {
    const char *name;
    const char *value; /* placeholder in --help */
    const char *help;
    std::string Options::*field;
};

constexpr std::array<Row, 8> kRows = {{
    {"model", "FILE", "program to run (.pte)", &Options::model},
    {"dataset", "DIR", "one file per sample; for programs with one input", &Options::dataset},
    {"inputs", "PATH,PATH..", "one directory per sample with its inputs in name order; or the files of one sample",
     &Options::inputs},
    {"output", "DIR", "writes DIR/<sample>/0000.bin, 0001.bin .. and DIR/trace.etdump (default: results)",
     &Options::output},
    {"method", "NAME", "method to run (default: forward, or the only one)", &Options::method},
    {"firmware", "FILE", "accepted for scripts for NXP's simulator; not used", &Options::firmware},
    {"nsys", "FILE", "the same", &Options::nsys},
    {"nsys_config", "FILE", "the same", &Options::nsys_config},
}};

const Row *find_row(const std::string &name)
{
    for (const Row &row : kRows) {
        if (name == row.name) {
            return &row;
        }
    }
    return nullptr;
}

std::string known_options()
{
    std::string text;
    for (const Row &row : kRows) {
        text += std::string(text.empty() ? "" : ", ") + "`--" + row.name + "`";
    }
    return text;
}

void check(const Options &options)
{
    if (options.model.empty()) {
        throw UsageError("`--model` is missing", "give the program to run, for example `--model model.pte`");
    }
    if (options.dataset.empty() == options.inputs.empty()) {
        throw UsageError(options.dataset.empty() ? "neither `--dataset` nor `--inputs` is given"
                                                 : "`--dataset` and `--inputs` exclude each other",
                         "`--dataset DIR` for programs with one input, `--inputs DIR,DIR..` for others");
    }
}

} // namespace

Options parse_options(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string argument = argv[i];
        if (argument == "--help" || argument == "-h") {
            options.help = true;
            return options;
        }
        const size_t equals = argument.find('=');
        const Row *const row = argument.rfind("--", 0) == 0 ? find_row(argument.substr(2, equals - 2)) : nullptr;
        if (row == nullptr) {
            throw UsageError("unknown argument `" + argument + "`", "options are " + known_options());
        }
        if (equals == std::string::npos && i + 1 == argc) {
            throw UsageError("`" + argument + "` has no value", "write `" + argument + " " + row->value + "`");
        }
        options.*(row->field) = equals == std::string::npos ? argv[++i] : argument.substr(equals + 1);
    }
    check(options);
    return options;
}

std::string help_text()
{
    std::string text =
        "usage: deuteron-runner --model FILE (--dataset DIR | --inputs PATH,PATH..) [--output DIR]\n"
        "\n"
        "Runs a program with raw input tensors, NPU partitions through Deuteron's driver, and writes raw output "
        "tensors.\n"
        "An input file has the bytes of its tensor in the tensor's dim order, or, for a float tensor, one "
        "unsigned\n"
        "byte per element; for a number 8 bytes. Exit codes: 0 every sample was run and written, 1 something failed, 2 "
        "wrong usage.\n"
        "\n";
    for (const Row &row : kRows) {
        std::string head = std::string("  --") + row.name + " " + row.value;
        head.resize(head.size() < 26 ? 26 : head.size() + 1, ' ');
        text += head + row.help + "\n";
    }
    return text;
}

} // namespace deuteron::runner
