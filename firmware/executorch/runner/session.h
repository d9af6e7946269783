/* A loaded program. */
#pragma once

#include <executorch/extension/module/module.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "files.h"

namespace deuteron::runner
{

class Session
{
  public:
    /* Loads a program and one of its methods; an empty name means `forward`, or the only method. Throws Failure. */
    Session(const std::string &model, const std::string &method);

    /* Runs a sample, writes its outputs as 0000.bin, 0001.bin .. into `directory`, and returns their number. */
    size_t run(const Sample &sample, const std::filesystem::path &directory);

    /* Writes the events of all runs. */
    void write_trace(const std::filesystem::path &path);

  private:
    executorch::extension::Module module_;
    std::string method_;
};

} // namespace deuteron::runner
