// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/device/beside.h"

#include <dlfcn.h>

namespace cinch::hooks {

std::string path_beside(const char* file) {
  static const char anchor = 0;
  Dl_info info;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string own = info.dli_fname;
  const auto slash = own.rfind('/');
  return slash == std::string::npos ? "" : own.substr(0, slash + 1) + file;
}

}  // namespace cinch::hooks
