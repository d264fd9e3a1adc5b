// SPDX-License-Identifier: Apache-2.0
#include "libraries.h"

#include <atomic>
#include <mutex>
#include <sstream>
#include <string>

#include <dlfcn.h>

#include "say.h"
#include "settings.h"

namespace fakecuda {
namespace {

void load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fault("%s", dlerror());
    return;
  }
  if (auto* loaded = reinterpret_cast<void (*)()>(dlsym(library, "fakecuda_loaded"))) loaded();
}

}  // namespace

void load_libraries() {
  static std::atomic<bool> done{false};
  static std::recursive_mutex mutex;
  if (done || settings().libraries == nullptr) return;
  // The preloaded fake is in every process, also in those without torch.
  if (dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY) == nullptr) return;
  const std::lock_guard guard(mutex);
  if (done.exchange(true)) return;
  std::istringstream list(settings().libraries);
  for (std::string path; std::getline(list, path, ':');) load(path.c_str());
}

}  // namespace fakecuda
