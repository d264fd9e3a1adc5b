// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/cuda_plugin.h"

#include <climits>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace cinch::hooks {
namespace {

const allocator::CudaPlugin* plugin = nullptr;

int is_c10_cuda(dl_phdr_info* info, std::size_t, void*) {
  const char* slash = info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  return slash != nullptr && std::strcmp(slash + 1, "libc10_cuda.so") == 0 ? 1 : 0;
}

// "…/libcinch_torch-2.11.so" to "…/libcinch_torch_cuda-2.11.so"; false when this library's name is
// not of that form.
bool path_beside_this(char (&path)[PATH_MAX]) {
  static const char anchor = 0;
  static constexpr char name[] = "/libcinch_torch";
  Dl_info info;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return false;
  char own[PATH_MAX];
  if (realpath(info.dli_fname, own) == nullptr) return false;
  const char* file = std::strrchr(own, '/');
  if (file == nullptr || std::strncmp(file, name, sizeof name - 1) != 0) return false;
  const int written =
      std::snprintf(path, sizeof path, "%.*s%s_cuda%s", static_cast<int>(file - own), own, name,
                    file + sizeof name - 1);
  return written > 0 && static_cast<std::size_t>(written) < sizeof path;
}

void say(const char* what, const char* detail) {
  std::fprintf(stderr, "cinch: PyTorch keeps its own CUDA allocator: %s%s\n", what, detail);
}

}  // namespace

void install_cuda_allocator() {
  if (dl_iterate_phdr(is_c10_cuda, nullptr) == 0) return;
  char path[PATH_MAX];
  if (!path_beside_this(path) || access(path, F_OK) != 0) return;
  // Never unloaded: PyTorch will hold pointers into it until the process ends.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return say("", dlerror());
  const auto open = reinterpret_cast<allocator::CudaPluginOpen>(dlsym(library, "cinch_cuda_open"));
  if (open == nullptr) return say("no cinch_cuda_open in ", path);
  char why[256] = "";
  const allocator::CudaPlugin* opened = open(why, sizeof why);
  if (opened == nullptr) {
    if (*why != '\0') say("", why);
    return;
  }
  // The libraries ship together; a mixture must not talk to each other.
  if (opened->abi == allocator::cuda_plugin_abi) plugin = opened;
}

const allocator::CudaPlugin* cuda_plugin() noexcept {
  return plugin;
}

}  // namespace cinch::hooks
