// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <torch/csrc/autograd/engine.h>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry.h"

namespace cinch::hooks {

/// Makes autograd ask us for saved-tensor hooks: replaces torch's engine stub by one that gives the
/// same engine, with one slot of its vtable ours.
///
/// No Python and no GIL; all threads are covered, and a forked child too, whose engine PyTorch
/// builds anew: the stub looks each time. @pre called once
void take_over_engine(torch::autograd::EngineStub real);

/// The place of Engine::get_default_saved_variable_hooks() among the engine's virtual functions.
std::size_t slot_of_get_hooks() noexcept;

/// No engine has more virtual functions than that.
inline constexpr std::size_t engine_functions = 12;  // also in tests/hooks/preload_test.py

/// What the interposed SavedVariable constructor decided, for the question that follows on the same
/// thread. Cleared by that question.
struct Intent {
  bool decided = false;
  bool wanted = false;
  bool is_output = false;
  Site* site = nullptr;
  OperatorSays operator_says;
};
extern thread_local Intent intent;

}  // namespace cinch::hooks
