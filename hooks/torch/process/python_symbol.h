// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace cinch::hooks {

/// Looks up a Python function in the process, since Cinch does not depend on Python's headers and
/// libraries. Sets `function`, to null if there is none. @return whether it was found
template <typename Function>
bool find_in_python(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace cinch::hooks
