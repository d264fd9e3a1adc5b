// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/saved_inputs.h"

#include <mutex>
#include <unordered_map>

#include "hooks/torch/autograd/held_tensor.h"
#include "hooks/torch/process/fork.h"

namespace cinch::hooks::saved_inputs {
namespace {

using torch::autograd::Node;

// Never destroyed: graphs may outlive everything.
struct Table {
  std::mutex mutex;
  std::unordered_map<Key, const HeldTensor*> by_producer;
};

Table& table() {
  static auto& all = *new Table;
  return all;
}

}  // namespace

Key key_of(const Node& producer, std::uint32_t output) noexcept {
  static_assert(alignof(Node) >= 8);
  const auto address = reinterpret_cast<std::uintptr_t>(&producer);
  return output < alignof(Node) ? address + output : 0;
}

void register_lock() {
  register_fork_lock(table().mutex);
}

void add(Key key, const HeldTensor& held) {
  const std::lock_guard lock(table().mutex);
  table().by_producer[key] = &held;
}

void remove(Key key, const HeldTensor& held) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto known = table().by_producer.find(key);
  if (known != table().by_producer.end() && known->second == &held) {
    table().by_producer.erase(known);
  }
}

// A tensor that is saved but is no input of the node (of an autograd.Function) may outlive its
// producer, and another node may then lie at the producer's address.
void find(const Node& producer, std::uint32_t output,
          const std::function<void(const HeldTensor&)>& look) {
  const Key key = key_of(producer, output);
  const std::lock_guard lock(table().mutex);
  const auto known = table().by_producer.find(key);
  if (key == 0 || known == table().by_producer.end()) return;
  if (known->second->producer().get() == &producer) look(*known->second);
}

}  // namespace cinch::hooks::saved_inputs
