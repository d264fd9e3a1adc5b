// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

/// What can be told of a command line from its own description, so that it is never out of date.
namespace cinch::cli {

/// A completion script for `shell`: "bash", "zsh" or "fish". Words only: commands, options, the
/// values of options that have a fixed set, and files elsewhere.
std::string completion(const CLI::App& app, const std::string& shell);

/// A manual page, section 1, in man's own format.
std::string manual(const CLI::App& app, const std::string& version);

}  // namespace cinch::cli
