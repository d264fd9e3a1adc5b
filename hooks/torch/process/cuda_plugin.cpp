// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/cuda_plugin.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "hooks/torch/process/beside.h"

namespace cinch::hooks {
namespace {

const allocator::CudaPlugin* plugin = nullptr;

int is_c10_cuda(dl_phdr_info* info, std::size_t, void*) {
  const char* slash = info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  return slash != nullptr && std::strcmp(slash + 1, "libc10_cuda.so") == 0 ? 1 : 0;
}

// The plug-in's path: for this library's "…/libcinch_torch-2.11.so" it is
// "…/libcinch_torch_cuda-2.11.so". Empty if this library's file has another name.
std::filesystem::path plugin_path() {
  constexpr std::string_view name = "libcinch_torch";
  std::error_code fault;
  const std::filesystem::path own = std::filesystem::canonical(own_path(), fault);
  std::string file = own.filename();
  if (fault || !file.starts_with(name)) return {};
  return own.parent_path() / file.insert(name.size(), "_cuda");
}

void say(const char* what, const char* detail) {
  std::fprintf(stderr, "cinch: PyTorch keeps its own CUDA allocator: %s%s\n", what, detail);
}

}  // namespace

void install_cuda_allocator() {
  if (dl_iterate_phdr(is_c10_cuda, nullptr) == 0) return;
  const std::filesystem::path path = plugin_path();
  if (path.empty() || access(path.c_str(), F_OK) != 0) return;
  // Never unloaded: PyTorch will hold pointers into it until the process ends.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return say("", dlerror());
  const auto open = reinterpret_cast<allocator::CudaPluginOpen>(dlsym(library, "cinch_cuda_open"));
  if (open == nullptr) return say("no cinch_cuda_open in ", path.c_str());
  char why[256] = "";
  const allocator::CudaPlugin* opened = open(why, sizeof why);
  if (opened == nullptr) {
    if (*why != '\0') say("", why);
    return;
  }
  // The libraries ship together; a plug-in with another ABI must not be called.
  if (opened->abi == allocator::cuda_plugin_abi) plugin = opened;
}

const allocator::CudaPlugin* cuda_plugin() noexcept {
  return plugin;
}

}  // namespace cinch::hooks
