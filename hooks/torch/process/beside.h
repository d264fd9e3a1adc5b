// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace cinch::hooks {

/// The path of the library that this code is in, as it was loaded; empty when that can't be told.
std::filesystem::path own_path();

/// The path of `file` in that library's folder; empty when that can't be told.
std::filesystem::path path_beside(std::string_view file);

}  // namespace cinch::hooks
