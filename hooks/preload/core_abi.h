/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between libcinch.so (the preload library, libc and libdl only) and
 * libcinch_torch.so (the core, built against one torch minor). */
#pragma once

#include <cstdint>

namespace cinch {

/// Increases with every change to CoreTable; the two libraries ship together, so a mismatch means a
/// broken installation.
inline constexpr std::uint32_t core_abi_version = 4;

/// `torch::autograd::EngineStub`, without torch's headers.
using EngineStub = void* (*)();

/// The real `SavedVariable::register_hooks`.
using RegisterHooks = void (*)(void* saved_variable, void* unique_ptr_to_hooks);

/// The core's entry points; all may be called from any thread. Only before_register_hooks may
/// throw: its caller replaces a C++ function that may throw too.
struct CoreTable {
  std::uint32_t abi;

  /// Called before `SavedVariable(tensor, is_output, is_inplace_on_view)` runs. The core decides
  /// whether it wants this tensor; the constructor then asks the engine for hooks, on the same
  /// thread. `site` is the constructor's return address.
  void (*before_save)(const void* tensor, bool is_output, bool is_inplace_on_view, void* site);

  /// Called before the real `register_hooks`: gives a tensor that the core holds back to autograd.
  /// Throws c10::Error if the core does not hold the tensor's values.
  void (*before_register_hooks)(void* saved_variable);

  /// Called after a sum or difference: `other` is the right operand, a tensor.
  void (*after_sum)(const void* result, const void* other) noexcept;
  /// Called after `number - tensor`, and after a pad by a number.
  void (*after_number)(const void* result, const void* number) noexcept;

  /// Called after an index has picked `result` out of the tensor `input`.
  void (*after_gather)(const void* result, const void* input) noexcept;
};

/// `cinch_core_open`: starts the core in this process. `engine_stub` is the engine stub that torch
/// has just set; the core replaces it. Returns null if the core stays inactive; the core itself
/// reports any reason.
using CoreOpen = const CoreTable* (*)(EngineStub engine_stub);

}  // namespace cinch
