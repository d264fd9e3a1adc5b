// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/beside.h"

#include <dlfcn.h>

namespace cinch::hooks {

std::filesystem::path own_path() {
  static const char anchor = 0;
  Dl_info info;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::filesystem::path path_beside(std::string_view file) {
  const std::filesystem::path own = own_path();
  return own.has_parent_path() ? own.parent_path() / file : std::filesystem::path();
}

}  // namespace cinch::hooks
