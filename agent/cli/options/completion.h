// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

/// Texts made from the description of the command line, so that they are never out of date.
namespace cinch::cli {

/// A completion script for `shell`: "bash", "zsh" or "fish". Completes words: commands, options,
/// the values of options that have a fixed set, and files elsewhere.
std::string completion(const CLI::App& app, const std::string& shell);

/// A manual page, section 1, in man's own format.
std::string manual(const CLI::App& app, const std::string& version);

}  // namespace cinch::cli
