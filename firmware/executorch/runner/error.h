/* Errors of the runner. */
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace deuteron::runner
{

/* A failure with a hint; `main` prints both and exits with 1. */
struct Failure : std::runtime_error {
    explicit Failure(const std::string &what, std::string the_hint = "")
        : std::runtime_error(what), hint(std::move(the_hint))
    {
    }

    std::string hint;
};

/* The hint for damage in a program. */
inline const char *damaged()
{
    return "the file is damaged or truncated: build it again";
}

/* An invalid command line; `main` exits with 2. */
struct UsageError : Failure {
    using Failure::Failure;
};

} // namespace deuteron::runner
