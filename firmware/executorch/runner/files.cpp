#include "files.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "error.h"

namespace fs = std::filesystem;

namespace deuteron::runner
{
namespace
{

/* Regular files of a directory in name order, the order of a program's inputs. */
std::vector<fs::path> files_of(const fs::path &directory)
{
    std::error_code code;
    fs::directory_iterator entries(directory, code);
    if (code) {
        throw Failure("cannot read directory `" + directory.string() + "`: " + code.message());
    }
    std::vector<fs::path> files;
    for (const fs::directory_entry &entry : entries) {
        if (entry.is_regular_file()) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    if (files.empty()) {
        throw Failure("directory `" + directory.string() + "` has no files", "put the raw input tensors there");
    }
    return files;
}

std::vector<Sample> samples_of_dataset(const fs::path &directory)
{
    std::vector<Sample> samples;
    for (const fs::path &file : files_of(directory)) {
        samples.push_back({file.filename().string(), {file}});
    }
    return samples;
}

std::vector<Sample> samples_of_inputs(const std::string &list)
{
    std::vector<fs::path> paths;
    std::stringstream stream(list);
    for (std::string item; std::getline(stream, item, ',');) {
        paths.emplace_back(item);
    }
    const auto directories =
        std::count_if(paths.begin(), paths.end(), [](const fs::path &path) { return fs::is_directory(path); });
    if (directories == 0) {
        return {{".", paths}};
    }
    if (static_cast<size_t>(directories) != paths.size()) {
        throw Failure("`--inputs` mixes directories and other paths: `" + list + "`",
                      "list either one directory per sample or the files of one sample");
    }
    std::vector<Sample> samples;
    for (const fs::path &path : paths) {
        const fs::path clean = path.has_filename() ? path : path.parent_path();
        const std::string name = clean.filename().string();
        if (std::any_of(samples.begin(), samples.end(), [&](const Sample &other) { return other.name == name; })) {
            throw Failure("`--inputs` has two directories named `" + name + "`",
                          "outputs go to a directory of the sample's name: give each its own");
        }
        samples.push_back({name, files_of(path)});
    }
    return samples;
}

} // namespace

std::vector<Sample> find_samples(const Options &options)
{
    return options.dataset.empty() ? samples_of_inputs(options.inputs) : samples_of_dataset(options.dataset);
}

std::vector<uint8_t> read_file(const fs::path &path)
{
    std::ifstream stream(path, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (!stream.is_open() || stream.bad()) {
        throw Failure("cannot read `" + path.string() + "`");
    }
    return bytes;
}

void write_file(const fs::path &path, const void *data, size_t bytes)
{
    std::error_code code;
    fs::create_directories(path.parent_path(), code);
    if (code) {
        throw Failure("cannot create directory `" + path.parent_path().string() + "`: " + code.message());
    }
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
    stream.close();
    if (!stream) {
        fs::remove(path, code);
        throw Failure("cannot write " + std::to_string(bytes) + " bytes to `" + path.string() + "`");
    }
}

} // namespace deuteron::runner
