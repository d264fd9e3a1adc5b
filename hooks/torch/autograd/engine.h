// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <torch/csrc/autograd/engine.h>

#include "hooks/torch/autograd/held/held.h"

namespace cinch::hooks {

/// Makes autograd ask us for saved-tensor hooks: replaces torch's engine stub by one that gives the
/// same engine, with one slot of its vtable ours.
///
/// Needs neither Python nor the GIL. Covers all threads, and forked children, for which PyTorch
/// builds a new engine: the stub checks the engine's vtable at each call. @pre called once
void take_over_engine(torch::autograd::EngineStub real);

/// The index of Engine::get_default_saved_variable_hooks() in the engine's vtable.
std::size_t slot_of_get_hooks() noexcept;

/// Upper bound of the number of an engine's virtual functions.
inline constexpr std::size_t engine_functions = 12;  // also in tests/hooks/preload_test.py

/// What the interposed SavedVariable constructor decided about its tensor. The constructor then
/// asks the engine for hooks on the same thread, which clears this.
struct Intent {
  bool decided = false;
  std::unique_ptr<Held> hooks;  ///< null: PyTorch keeps the tensor itself
};
extern thread_local Intent intent;

}  // namespace cinch::hooks
