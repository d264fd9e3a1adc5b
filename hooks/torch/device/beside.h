// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cinch::hooks {

/// The path of `file` in the folder of the library that this code is in; empty when that can't be
/// told.
std::string path_beside(const char* file);

}  // namespace cinch::hooks
