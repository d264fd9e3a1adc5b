// SPDX-License-Identifier: Apache-2.0
//
// Cinch's own kernels on the fake runtime. For each kernel that the CUDA engine launches, the same
// source compiled for the host (tests/cuda_on_host) runs, as work of the stream.
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "by_name.h"
#include "cuda_on_host.h"
#include "fakecuda.h"
#include "symbols.h"

namespace fakecuda::kernels {
namespace {

/// The parameter list: "(int, float)" for "void f<(E)1>(int, float)" and for "void (int, float)".
std::string parameters_in(const std::string& name) {
  int depth = 0;
  for (std::size_t at = name.size(); at-- > 0;) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) return name.substr(at);
  }
  return name;
}

std::unordered_map<std::string, Bind>& binds() {
  static auto* all = new std::unordered_map<std::string, Bind>;
  return *all;
}

struct Kernel {
  void* function = nullptr;
  Bind bind = nullptr;
};

/// @return null when this library has no such kernel
const Kernel* kernel_of(const char* mangled) {
  static std::mutex mutex;
  static auto* const functions =
      new std::unordered_map<std::string, void*>(functions_of_this_library());
  static auto* const known = new std::unordered_map<std::string, Kernel>;
  const std::lock_guard guard(mutex);
  const auto [at, fresh] = known->try_emplace(mangled);
  if (fresh) {
    const std::string name = demangled(mangled);
    const auto function = functions->find(name);
    const auto bind = binds().find(parameters_in(name));
    if (function != functions->end() && bind != binds().end()) {
      at->second = {function->second, bind->second};
    }
  }
  return at->second.function != nullptr ? &at->second : nullptr;
}

struct Launch {
  unsigned blocks, threads;
  std::size_t shared_bytes;
  std::function<void()> kernel;
};

int find(fakecuda_launch* wanted) {
  // Cinch's launches have one dimension.
  if (wanted->grid[1] * wanted->grid[2] * wanted->block[1] * wanted->block[2] != 1) return 0;
  const Kernel* kernel = kernel_of(wanted->name);
  if (kernel == nullptr) return 0;
  wanted->context = new Launch{wanted->grid[0], wanted->block[0], wanted->shared_bytes,
                               kernel->bind(kernel->function, wanted->arguments)};
  wanted->run = [](void* context) {
    const auto& launch = *static_cast<const Launch*>(context);
    cinch::cuda_on_host::run(launch.blocks, launch.threads, launch.shared_bytes, launch.kernel);
  };
  wanted->destroy = [](void* context) { delete static_cast<Launch*>(context); };
  return 1;
}

[[gnu::constructor]] void begin() {
  fakecuda_add_kernels(find);
}

}  // namespace

bool note(const std::type_info& type, Bind bind) {
  binds()[parameters_in(demangled(type.name()))] = bind;
  return true;
}

}  // namespace fakecuda::kernels
