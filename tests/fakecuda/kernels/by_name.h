// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <typeinfo>
#include <utility>

/// Kernels that are compiled for the host, found by the names under which nvcc's code registers
/// the same kernels with the CUDA runtime.
namespace fakecuda::kernels {

/// Copies a launch's arguments. @return the kernel called with them, for one thread
using Bind = std::function<void()> (*)(void* kernel, void** arguments);

/// Remembers how kernels of this type are called. @return true
bool note(const std::type_info& type, Bind bind);

/// What kernels with these parameters need; whoever asks for `noted` has noted it, before main.
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
