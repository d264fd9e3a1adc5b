// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/engine.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/program/users_hooks.h"

namespace cinch::hooks {

thread_local Intent intent;

namespace {

using torch::autograd::Engine;
using torch::autograd::EngineStub;
using torch::autograd::SavedVariableHooks;
using GetHooks = std::unique_ptr<SavedVariableHooks> (*)(Engine*);

EngineStub real_stub = nullptr;
GetHooks real_get_hooks = nullptr;
std::atomic<void**> our_vtable{nullptr};

std::unique_ptr<SavedVariableHooks> get_hooks(Engine* engine) {
  Intent now = std::exchange(intent, {});
  // The program's own hooks win; while tracing there must be none.
  if (users_hooks_in_force()) {
    note_users_hooks();
    return real_get_hooks(engine);
  }
  if (now.decided) return std::move(now.hooks);
  // Torch's constructor can't be interposed. Then every tensor gets our hooks, and tensors that are
  // not wanted are held as they are.
  try {
    return std::make_unique<HeldTensor>();
  } catch (const std::exception&) {
    return nullptr;  // no memory: PyTorch keeps this tensor itself
  }
}

// Copies the engine's vtable, with the two words in front of it (offset to top, type) and at least
// as many functions as any engine has, and puts get_hooks into the slot of the copy.
void** copy_vtable(void** vtable) {
  constexpr std::size_t in_front = 2;
  constexpr std::size_t words = in_front + engine_functions;
  auto** copy = static_cast<void**>(std::calloc(words, sizeof(void*)));
  if (copy == nullptr) return vtable;
  std::memcpy(copy, vtable - in_front, words * sizeof(void*));
  copy += in_front;
  const std::size_t slot = slot_of_get_hooks();
  real_get_hooks = reinterpret_cast<GetHooks>(copy[slot]);
  copy[slot] = reinterpret_cast<void*>(get_hooks);
  return copy;
}

Engine& our_stub() {
  Engine& engine = real_stub();
  void**& vtable = *reinterpret_cast<void***>(&engine);
  void** ours = our_vtable.load(std::memory_order_acquire);
  if (__builtin_expect(__atomic_load_n(&vtable, __ATOMIC_RELAXED) != ours, 0)) {
    if (ours == nullptr) {
      // Concurrent threads make equal copies; the first one stored is used.
      void** copy = copy_vtable(vtable);
      if (our_vtable.compare_exchange_strong(ours, copy)) ours = copy;
    }
    __atomic_store_n(&vtable, ours, __ATOMIC_RELAXED);
  }
  return engine;
}

}  // namespace

// The Itanium C++ ABI: a pointer to a virtual member function is 1 + the slot's byte offset.
std::size_t slot_of_get_hooks() noexcept {
  const auto member = &Engine::get_default_saved_variable_hooks;
  std::uintptr_t encoded = 0;
  std::memcpy(&encoded, &member, sizeof encoded);
  return (encoded - 1) / sizeof(void*);
}

void take_over_engine(EngineStub real) {
  real_stub = real;
  torch::autograd::set_default_engine_stub(our_stub);
}

}  // namespace cinch::hooks
