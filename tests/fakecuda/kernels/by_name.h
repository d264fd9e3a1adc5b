// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <typeinfo>
#include <utility>

/// Finds kernels compiled for the host by the names under which nvcc's code registers the same
/// kernels with the CUDA runtime.
namespace fakecuda::kernels {

/// Copies a launch's arguments. @return a function that runs one thread of the kernel with them
using Bind = std::function<void()> (*)(void* kernel, void** arguments);

/// Registers how kernels of function type `type` are called. @return true
bool note(const std::type_info& type, Bind bind);

/// Calls kernels with these parameters. Code that reads `noted` registers `bind` before main.
template <class... Parameters>
struct Signature {
  static std::function<void()> bind(void* kernel, void** arguments) {
    const auto copied = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::tuple<Parameters...>(*static_cast<Parameters*>(arguments[i])...);
    }
    (std::index_sequence_for<Parameters...>());
    return
        [kernel, copied] { std::apply(reinterpret_cast<void (*)(Parameters...)>(kernel), copied); };
  }
  static inline const bool noted = note(typeid(void(Parameters...)), bind);
};

}  // namespace fakecuda::kernels
