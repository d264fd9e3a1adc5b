// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/saved_inputs.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/nodes/node_views.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/autograd_node.h"

namespace cinch::hooks::saved_inputs {
namespace {

using torch::autograd::Node;

struct OtherForm {
  const HeldTensor* held;
  std::uint32_t output;  // of the node that made it
};

// Never destroyed: graphs may outlive everything.
struct Table {
  std::mutex mutex;
  std::unordered_map<Key, const HeldTensor*> by_producer;
  std::unordered_map<const Node*, OtherForm> other_forms;          // by what made the first form
  std::unordered_map<const HeldTensor*, const Node*> first_forms;  // the other way round
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

struct FirstForm {
  const Node* producer = nullptr;
  Form form = Form::widened;
};

// Views of views are followed so far.
constexpr int most_views = 8;

// The only input of a node: an output of another one, or none.
torch::autograd::Edge input_of(const Node& node) {
  return node.num_outputs() == 1 ? node.next_edge(0) : torch::autograd::Edge();
}

// The node whose first output `node` has made wider, or sees a part of; null if there is none.
FirstForm first_form(const Node& node) {
  torch::autograd::Edge input = input_of(node);
  if (!input.is_valid()) return {};
  const NodeKind kind = kind_of(node);
  if (kind < NodeKind::view) {
    const bool widens = kind == NodeKind::copy && input.input_nr == 0 && node.num_inputs() == 1 &&
                        is_wider(type_of(node), type_of(*input.function));
    return {widens ? input.function.get() : nullptr, Form::widened};
  }
  for (int views = 1; views < most_views && kind_of(*input.function) >= NodeKind::view; ++views) {
    torch::autograd::Edge before = input_of(*input.function);
    if (!before.is_valid()) return {};
    input = std::move(before);
  }
  return {input.input_nr == 0 ? input.function.get() : nullptr, Form::view};
}

// Whether the geometry is the view's. A dimension of one element may have any stride.
bool is_of(const Geometry& geometry, const View& view) {
  if (geometry.offset() != view.offset || geometry.sizes() != view.layout.sizes) return false;
  const c10::DimVector strides = geometry.strides();
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (view.layout.sizes[i] != 1 && strides[i] != view.layout.strides[i]) return false;
  }
  return true;
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

void add_other_form(const Node& producer, std::uint32_t output, const HeldTensor& held) {
  const Node* const first = first_form(producer).producer;
  if (first == nullptr) return;
  const std::lock_guard lock(table().mutex);
  table().first_forms[&held] = first;
  table().other_forms[first] = {&held, output};
}

void remove(Key key, const HeldTensor& held) noexcept {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto known = all.by_producer.find(key);
  if (known != all.by_producer.end() && known->second == &held) all.by_producer.erase(known);
  const auto first = all.first_forms.find(&held);
  if (first == all.first_forms.end()) return;
  const auto other = all.other_forms.find(first->second);
  if (other != all.other_forms.end() && other->second.held == &held) all.other_forms.erase(other);
  all.first_forms.erase(first);
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

void find_other_form(const Node& producer, const Layout& whole,
                     const std::function<void(const HeldTensor&, Form)>& look) {
  const std::lock_guard lock(table().mutex);
  const auto known = table().other_forms.find(&producer);
  if (known == table().other_forms.end()) return;
  const auto& [held, output] = known->second;
  const NodePointer made = held->producer();
  if (made == nullptr) return;
  const FirstForm first = first_form(*made);
  if (first.producer != &producer) return;
  if (first.form == Form::view) {
    const auto seen = view_through(*made, output, producer, whole);
    if (!seen || !is_of(held->use().geometry, *seen) || !shows_all_dimensions(*seen, whole)) return;
  }
  look(*held, first.form);
}

}  // namespace cinch::hooks::saved_inputs
