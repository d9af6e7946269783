/* Reads sample files and writes tensor files. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "options.h"

namespace deuteron::runner
{

struct Sample {
    std::string name; /* directory name of its outputs */
    std::vector<std::filesystem::path> inputs;
};

/* Samples of `--dataset` or `--inputs` in name order (`--inputs`: as listed). Throws Failure if there are none. */
std::vector<Sample> find_samples(const Options &options);

/* All bytes of a file. */
std::vector<uint8_t> read_file(const std::filesystem::path &path);

/* Creates or replaces a file, and its directory if it is missing. Removes a file that cannot be written completely. */
void write_file(const std::filesystem::path &path, const void *data, size_t bytes);

} // namespace deuteron::runner
