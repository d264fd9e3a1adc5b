/* SPDX-License-Identifier: Apache-2.0 */
/* What libcinch.so (the preload library, libc and libdl only) and libcinch_torch.so (the core,
 * built against one torch minor) know of each other. */
#pragma once

#include <cstdint>

namespace cinch {

/// Increases with every change to CoreTable; the two libraries ship together, so a mismatch means a
/// broken installation.
inline constexpr std::uint32_t core_abi_version = 1;

/// `torch::autograd::EngineStub`, without torch's headers.
using EngineStub = void* (*)();

/// The real `SavedVariable::register_hooks`.
using RegisterHooks = void (*)(void* saved_variable, void* unique_ptr_to_hooks);

/// The core's entry points; all may be called from any thread. Only before_register_hooks throws,
/// which stands for a function of C++ that does.
struct CoreTable {
  std::uint32_t abi;

  /// Called before `SavedVariable(tensor, is_output, is_inplace_on_view)` runs: the core decides
  /// whether it wants this tensor, for the hooks question that the constructor asks next on the
  /// same thread. `site` is the constructor's return address.
  void (*before_save)(const void* tensor, bool is_output, bool is_inplace_on_view, void* site);

  /// Called before the real `register_hooks`: a tensor that the core holds is given back first.
  /// Throws c10::Error where its values can't be.
  void (*before_register_hooks)(void* saved_variable);
};

/// `cinch_core_open`: starts the core in this process. `engine_stub` is what torch was just given
/// as its engine; the core replaces it. Returns null when the core stays inactive; it has then
/// said why, if there is anything to say.
using CoreOpen = const CoreTable* (*)(EngineStub engine_stub);

}  // namespace cinch
