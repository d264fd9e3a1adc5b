// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/saved_inputs.h"

#include <mutex>
#include <unordered_map>

#include "hooks/torch/autograd/held_tensor.h"
#include "hooks/torch/autograd/node_kinds.h"
#include "hooks/torch/autograd/node_steps.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/autograd_node.h"

namespace cinch::hooks::saved_inputs {
namespace {

using torch::autograd::Node;

// Never destroyed: graphs may outlive everything.
struct Table {
  std::mutex mutex;
  std::unordered_map<Key, const HeldTensor*> by_producer;
  std::unordered_map<const Node*, const HeldTensor*> widened;  // by what made the narrow value
  std::unordered_map<const HeldTensor*, const Node*> narrow;   // the other way round
};

Table& table() {
  static auto& all = *new Table;
  return all;
}

bool is_wider(c10::ScalarType wide, c10::ScalarType narrow) {
  const bool is_float = wide == at::kFloat || wide == at::kDouble;
  const bool was_float = narrow == at::kFloat || narrow == at::kHalf || narrow == at::kBFloat16;
  return is_float && was_float && c10::elementSize(wide) > c10::elementSize(narrow);
}

// The node whose first output the node has made wider; null if it is no such conversion.
const Node* widened_by(const Node& node) {
  if (node.num_outputs() != 1 || node.num_inputs() != 1) return nullptr;
  const torch::autograd::Edge& edge = node.next_edge(0);
  if (!edge.is_valid() || edge.input_nr != 0) return nullptr;
  const bool widens =
      is_wider(type_of(node), type_of(*edge.function)) && kind_of(node) == NodeKind::copy;
  return widens ? edge.function.get() : nullptr;
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

bool add_widened(const Node& conversion, const HeldTensor& held) {
  const Node* const producer = widened_by(conversion);
  if (producer == nullptr) return false;
  const std::lock_guard lock(table().mutex);
  table().narrow[&held] = producer;
  table().widened[producer] = &held;
  return true;
}

void remove_widened(const HeldTensor& held) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto narrow = table().narrow.find(&held);
  const auto known = table().widened.find(narrow->second);
  if (known != table().widened.end() && known->second == &held) table().widened.erase(known);
  table().narrow.erase(narrow);
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

void find_widened(const Node& producer, const std::function<void(const HeldTensor&)>& look) {
  const std::lock_guard lock(table().mutex);
  const auto known = table().widened.find(&producer);
  if (known == table().widened.end()) return;
  const NodePointer conversion = known->second->producer();
  if (conversion != nullptr && widened_by(*conversion) == &producer) look(*known->second);
}

}  // namespace cinch::hooks::saved_inputs
