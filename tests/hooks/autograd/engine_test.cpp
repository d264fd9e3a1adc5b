// SPDX-License-Identifier: Apache-2.0
//
// The one assumption about torch's binary that no header states: which slot of the engine's vtable
// libtorch_cpu calls when a tensor is saved.

#include "hooks/torch/autograd/engine.h"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace cinch::hooks {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

std::vector<std::size_t> called;

template <std::size_t slot>
std::unique_ptr<SavedVariableHooks> note(Engine*) {
  called.push_back(slot);
  return nullptr;
}

template <std::size_t... slots>
std::array<void*, sizeof...(slots)> notes(std::index_sequence<slots...>) {
  return {reinterpret_cast<void*>(note<slots>)...};
}

/// An engine of which nothing is real but the pointer to its vtable.
Engine& hollow_engine() {
  static auto vtable = notes(std::make_index_sequence<engine_functions>());
  static std::array<void*, 64> object = {vtable.data()};
  return *reinterpret_cast<Engine*>(object.data());
}

TEST(EngineSlot, IsTheOneThatSavingATensorCalls) {
  const at::Tensor tensor = at::ones({4}).set_requires_grad(true);
  torch::autograd::set_default_engine_stub(hollow_engine);
  { const torch::autograd::SavedVariable saved(tensor, false); }
  torch::autograd::set_default_engine_stub(Engine::get_base_engine);
  EXPECT_EQ(called, std::vector<std::size_t>{slot_of_get_hooks()});
}

TEST(EngineSlot, IsAmongTheFunctionsThatAreCopied) {
  EXPECT_GE(slot_of_get_hooks(), 2u);  // the two destructors come first
  EXPECT_LT(slot_of_get_hooks(), engine_functions);
}

}  // namespace
}  // namespace cinch::hooks
