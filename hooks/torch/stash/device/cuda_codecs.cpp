// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/cuda_codecs.h"

#include <cstdio>
#include <exception>
#include <filesystem>

#include <dlfcn.h>
#include <unistd.h>

#include "hooks/torch/process/beside.h"

namespace cinch::hooks {
namespace {

const codecs::cuda::Library* load() {
  const std::filesystem::path path = path_beside("libcinch_cuda.so");
  if (path.empty() || access(path.c_str(), F_OK) != 0) return nullptr;
  // Never unloaded: plans hold its codecs.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    std::fprintf(stderr, "cinch: CUDA tensors are left to PyTorch: %s\n", dlerror());
    return nullptr;
  }
  const auto open =
      reinterpret_cast<codecs::cuda::LibraryOpen>(dlsym(library, "cinch_cuda_library"));
  const codecs::cuda::Library* opened = open == nullptr ? nullptr : open();
  if (opened == nullptr || opened->abi != codecs::cuda::library_abi) {
    std::fprintf(stderr, "cinch: CUDA tensors are left to PyTorch: %s is of another Cinch\n",
                 path.c_str());
    return nullptr;
  }
  return opened;
}

}  // namespace

const codecs::cuda::Library* cuda_codecs() noexcept {
  static const codecs::cuda::Library* const library = []() noexcept {
    try {
      return load();
    } catch (const std::exception&) {
      return static_cast<const codecs::cuda::Library*>(nullptr);
    }
  }();
  return library;
}

codecs::cuda::Stream native(const c10::Stream& stream) {
  return static_cast<codecs::cuda::Stream>(stream.native_handle());
}

}  // namespace cinch::hooks
