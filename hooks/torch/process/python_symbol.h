// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace cinch::hooks {

/// Looks a function of Python's up in the process: its headers and libraries are no dependency of
/// Cinch. @return whether there is one; `function` is null where there is none
template <typename Function>
bool find_in_python(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace cinch::hooks
