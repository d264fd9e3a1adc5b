// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/users_hooks.h"

#include <array>
#include <atomic>
#include <cstdint>

#include <ATen/SavedTensorHooks.h>

#include "hooks/torch/program/node_number.h"

namespace cinch::hooks {
namespace {

// By the low bits of a node's sequence number, that number's low half plus 1. Threads count by
// themselves: a node may be taken for another thread's, which only costs a look at it.
constexpr std::size_t slots = std::size_t{1} << 18;
std::array<std::atomic<std::uint32_t>, slots> noted;
std::atomic<bool> all{false};

}  // namespace

bool users_hooks_in_force() {
  const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
  return !state.stack.empty() || state.is_tracing || state.disabled_error_message.has_value();
}

void note_users_hooks() noexcept {
  const std::uint64_t sequence = new_nodes_number();
  noted[sequence % slots].store(static_cast<std::uint32_t>(sequence) + 1,
                                std::memory_order_relaxed);
}

void note_registered_hooks() noexcept {
  all.store(true, std::memory_order_relaxed);
}

bool may_call_users_hooks(const torch::autograd::Node& node) noexcept {
  const std::uint64_t sequence = node.sequence_nr();
  return all.load(std::memory_order_relaxed) ||
         noted[sequence % slots].load(std::memory_order_relaxed) ==
             static_cast<std::uint32_t>(sequence) + 1;
}

}  // namespace cinch::hooks
