// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/held_compared.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/held/tensor_over.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/program/node_number.h"
#include "hooks/torch/stash/saved/verdict.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

/// What the hooks of all tensors share.
struct HeldCompared::Group {
  std::string_view op;
  std::uint64_t node = 0;        ///< its number
  HeldTensor* first = nullptr;   ///< null if autograd keeps the first tensor itself
  HeldTensor* second = nullptr;  ///< null if there is none
  at::Tensor kept_first;         ///< set where `first` is null
  std::optional<Comparison> comparison;
  std::optional<Comparison> of_second;  ///< set with `comparison`, if there is a second one
};

namespace {

/// A tensor that autograd keeps, and the number of the node that saved it last.
struct Declined {
  const at::Tensor* tensor = nullptr;  ///< lives while the node is made
  std::uint64_t node = 0;
};

thread_local std::weak_ptr<void> awaiting;
thread_local Declined declined;

Comparison::Of asked_by(std::string_view op) {
  using enum Comparison::Of;
  if (op == "aten::maximum" || op == "aten::minimum") return order;
  return op == "aten::amax" || op == "aten::amin" ? equality : sameness;
}

/// `result` with the dimensions that its node reduced, of an operand that had `rank`; undefined
/// where the node is another one.
template <typename Backward>
at::Tensor with_reduced(const at::Tensor& result, std::int64_t rank) {
  const auto* node = dynamic_cast<const Backward*>(result.grad_fn().get());
  if (node == nullptr) return {};
  at::Tensor with = result.tensor_data();
  if (node->keepdim || node->dim.empty()) return with;
  const BelowProgram guard;
  std::vector<std::int64_t> dims;
  for (const std::int64_t dim : node->dim) dims.push_back(dim < 0 ? dim + rank : dim);
  std::ranges::sort(dims);
  for (const std::int64_t dim : dims) with = with.unsqueeze(dim);
  return with;
}

/// Whether its values are to be replaced by how they compare.
bool is_to_replace(const HeldTensor& tensor) {
  return tensor.is_as_saved() && !tensor.use().site->shown();
}

/// What backward compares a first tensor of `rank` dimensions with.
at::Tensor compared_with(std::string_view op, const at::Tensor& last, std::int64_t rank) {
  using namespace torch::autograd::generated;
  if (op == "aten::amax") return with_reduced<AmaxBackward0>(last, rank);
  if (op == "aten::amin") return with_reduced<AminBackward0>(last, rank);
  return last.tensor_data();
}

}  // namespace

HeldCompared::HeldCompared(std::shared_ptr<Group> group, Role role, bool is_output)
    : group_(std::move(group)), role_(role), is_output_(is_output) {}

std::unique_ptr<HeldCompared> HeldCompared::first(Site& site) {
  auto group = std::make_shared<Group>();
  group->op = site.names()->op;
  group->node = new_nodes_number();
  std::unique_ptr<HeldCompared> hooks(new HeldCompared(group, Role::first, false));
  hooks->held_ = std::make_unique<HeldTensor>(site, false);
  // In place, PyTorch saves a copy that nobody else owns.
  if (is_scatter_reduce(group->op)) hooks->held_->await_comparison();
  group->first = hooks->held_.get();
  awaiting = group;
  return hooks;
}

std::shared_ptr<HeldCompared::Group> HeldCompared::saved_before(Site& site) {
  auto group = std::static_pointer_cast<Group>(awaiting.lock());
  const bool is_same =
      group != nullptr && group->node == new_nodes_number() && group->op == site.names()->op;
  return is_same ? group : nullptr;
}

std::unique_ptr<HeldCompared> HeldCompared::second(Site& site) {
  auto group = saved_before(site);
  if (group == nullptr) return nullptr;
  std::unique_ptr<HeldCompared> hooks(new HeldCompared(group, Role::second, false));
  hooks->held_ = std::make_unique<HeldTensor>(site, false);
  group->second = hooks->held_.get();
  return hooks;
}

void HeldCompared::note_declined(const at::Tensor& tensor) noexcept {
  declined = {&tensor, new_nodes_number()};
}

bool HeldCompared::awaits_last() noexcept {
  return !awaiting.expired();
}

std::unique_ptr<HeldCompared> HeldCompared::last(Site& site, bool is_output, bool is_wanted) {
  auto group = saved_before(site);
  awaiting = {};
  const std::string_view op = site.names()->op;
  if (group == nullptr) {
    const bool first_is_kept = is_wanted && asked_by(op) == Comparison::Of::order &&
                               declined.tensor != nullptr && declined.node == new_nodes_number();
    if (!first_is_kept) return nullptr;
    const Verdict verdict = judge(*declined.tensor, false, false, 0);
    if (verdict != Verdict::wanted && verdict != Verdict::parameter) return nullptr;
    group = std::make_shared<Group>();
    group->op = op;
    group->kept_first = declined.tensor->tensor_data();
  }
  std::unique_ptr<HeldCompared> hooks(new HeldCompared(std::move(group), Role::last, is_output));
  if (is_wanted) hooks->held_ = std::make_unique<HeldTensor>(site, is_output);
  return hooks;
}

void HeldCompared::call_pack_hook(const at::Tensor& tensor) {
  note(tensor, is_output_);
  if (!is_output_) watch(tensor);
  if (held_ != nullptr) {
    held_->call_pack_hook(tensor);
  } else {
    kept_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
  }
  if (role_ != Role::last || (held_ != nullptr && held_->entry() == nullptr)) return;
  const TimeInCinch time;
  if_memory_allows([&] {
    if (is_scatter_reduce(group_->op)) {
      compare_reduced(tensor);
    } else {
      compare(tensor);
    }
  });
}

// Holds how the two tensors compare, the last of which is `tensor`, if their values are known.
void HeldCompared::compare(const at::Tensor& tensor) {
  const bool is_alone = group_->first == nullptr;
  HeldTensor& replaced = is_alone ? *held_ : *group_->first;
  if (!is_to_replace(replaced)) return;
  const at::Tensor values = replaced.exact();
  if (!values.defined()) return;
  const at::Tensor other =
      is_alone ? group_->kept_first : compared_with(group_->op, tensor, values.dim());
  if (!other.defined()) return;
  // Backward asks `self == other`, of which `other` is saved first, and `result == self`.
  group_->comparison.emplace(values, other, asked_by(group_->op), is_alone, replaced.use());
  if (!HeldTensor::note_comparisons({&replaced})) {
    group_->comparison.reset();
  } else if (held_ != nullptr && !is_alone) {
    HeldTensor::note_comparisons({held_.get()});
  }
}

// The same for scatter_reduce of the largest or least, which asks of itself and of its source
// which elements equal those of the result that they have become.
void HeldCompared::compare_reduced(const at::Tensor& result) {
  using Backward = torch::autograd::generated::ScatterReduceBackward0;
  auto* node = dynamic_cast<Backward*>(result.grad_fn().get());
  if (node == nullptr || (node->reduce != "amax" && node->reduce != "amin")) return;
  if (group_->second == nullptr) return;  // the stash did not want it
  HeldTensor& self = *group_->first;
  HeldTensor& source = *group_->second;
  if (!is_to_replace(self) || !is_to_replace(source)) return;
  const at::Tensor own = self.exact();
  const at::Tensor added = source.exact();
  const at::Tensor index = exact_of(node->index_);
  if (!own.defined() || !added.defined() || !index.defined()) return;
  const at::Tensor reduced = result.tensor_data();
  at::Tensor of_added;
  {
    const BelowProgram guard;
    of_added = reduced.gather(node->dim, index);
  }
  const Comparison::Of equality = Comparison::Of::equality;
  group_->of_second.emplace(added, of_added, equality, true, source.use());
  group_->comparison.emplace(own, reduced, equality, true, self.use());
  if (HeldTensor::note_comparisons({&self, &source, held_.get()})) return;
  group_->comparison.reset();
  group_->of_second.reset();
}

at::Tensor HeldCompared::restore(Reader reader) {
  if (reader == Reader::program || !group_->comparison) {
    return held_ == nullptr ? kept_ : held_->restore(reader);
  }
  const bool is_alone = group_->first == nullptr;
  if (role_ == Role::last && !is_alone) return with_version(ones());
  const Comparison& comparison = *(role_ == Role::second ? group_->of_second : group_->comparison);
  const at::Tensor with = is_alone ? group_->kept_first : ones();
  return with_version(comparison.values(held_->use().type, with));
}

/// As many as the tensor has elements. @pre there is a comparison
at::Tensor HeldCompared::ones() const {
  const BelowProgram guard;
  if (held_ == nullptr) return at::ones({}, kept_.options()).expand(kept_.sizes());
  const auto options = at::dtype(held_->use().type).device(device_type(*held_->entry()));
  return at::ones({}, options).expand(held_->use().geometry.sizes());
}

Held::Description HeldCompared::describe() {
  if (held_ != nullptr) return held_->describe();
  return {kept_.toString(), kept_.sizes().vec()};
}

}  // namespace cinch::hooks
