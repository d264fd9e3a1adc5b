// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace cinch::hooks {

/// The path from which the library that contains this code was loaded; empty if unknown.
std::filesystem::path own_path();

/// The path of `file` in that library's folder; empty if unknown.
std::filesystem::path path_beside(std::string_view file);

}  // namespace cinch::hooks
