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
#include "hooks/torch/stash/entry/verdict.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

/// What the hooks of both tensors share.
struct HeldCompared::Pair {
  std::string_view op;
  std::uint64_t node = 0;       ///< its number
  HeldTensor* first = nullptr;  ///< null if autograd keeps the first tensor itself
  at::Tensor kept_first;        ///< set then
  std::optional<Comparison> comparison;
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

/// What backward compares a first tensor of `rank` dimensions with.
at::Tensor compared_with(std::string_view op, const at::Tensor& last, std::int64_t rank) {
  using namespace torch::autograd::generated;
  if (op == "aten::amax") return with_reduced<AmaxBackward0>(last, rank);
  if (op == "aten::amin") return with_reduced<AminBackward0>(last, rank);
  return last.tensor_data();
}

}  // namespace

HeldCompared::HeldCompared(std::shared_ptr<Pair> pair, bool is_first, bool is_output)
    : pair_(std::move(pair)), is_first_(is_first), is_output_(is_output) {}

std::unique_ptr<HeldCompared> HeldCompared::first(Site& site) {
  auto pair = std::make_shared<Pair>();
  pair->op = site.names()->op;
  pair->node = new_nodes_number();
  std::unique_ptr<HeldCompared> hooks(new HeldCompared(pair, true, false));
  hooks->held_ = std::make_unique<HeldTensor>(site, false);
  pair->first = hooks->held_.get();
  awaiting = pair;
  return hooks;
}

void HeldCompared::note_declined(const at::Tensor& tensor) noexcept {
  declined = {&tensor, new_nodes_number()};
}

bool HeldCompared::awaits_last() noexcept {
  return !awaiting.expired();
}

std::unique_ptr<HeldCompared> HeldCompared::last(Site& site, bool is_output, bool is_wanted) {
  auto pair = std::static_pointer_cast<Pair>(std::exchange(awaiting, {}).lock());
  const std::string_view op = site.names()->op;
  if (pair == nullptr || pair->node != new_nodes_number() || pair->op != op) {
    const bool first_is_kept = is_wanted && asked_by(op) == Comparison::Of::order &&
                               declined.tensor != nullptr && declined.node == new_nodes_number();
    if (!first_is_kept) return nullptr;
    const Verdict verdict = judge(*declined.tensor, false, false, 0);
    if (verdict != Verdict::wanted && verdict != Verdict::parameter) return nullptr;
    pair = std::make_shared<Pair>();
    pair->op = op;
    pair->kept_first = declined.tensor->tensor_data();
  }
  std::unique_ptr<HeldCompared> hooks(new HeldCompared(std::move(pair), false, is_output));
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
  if (is_first_) return;
  const TimeInCinch time;
  if_memory_allows([&] { compare(tensor); });
}

// Holds how the two tensors compare, the last of which is `tensor`, if their values are known.
void HeldCompared::compare(const at::Tensor& tensor) {
  if (held_ != nullptr && held_->entry() == nullptr) return;
  const bool is_alone = pair_->first == nullptr;
  HeldTensor& replaced = is_alone ? *held_ : *pair_->first;
  if (!replaced.is_as_saved() || replaced.use().site->shown()) return;
  const at::Tensor values = replaced.exact();
  if (!values.defined()) return;
  const at::Tensor other =
      is_alone ? pair_->kept_first : compared_with(pair_->op, tensor, values.dim());
  if (!other.defined()) return;
  // Backward asks `self == other`, of which `other` is saved first, and `result == self`.
  pair_->comparison.emplace(values, other, asked_by(pair_->op), is_alone, replaced.use());
  if (!replaced.note_comparison()) {
    pair_->comparison.reset();
  } else if (held_ != nullptr && !is_alone) {
    held_->note_comparison();
  }
}

at::Tensor HeldCompared::restore(Reader reader) {
  if (reader == Reader::program || !pair_->comparison) {
    return held_ == nullptr ? kept_ : held_->restore(reader);
  }
  const bool is_alone = pair_->first == nullptr;
  if (!is_first_ && !is_alone) return with_version(ones());
  const at::Tensor with = is_alone ? pair_->kept_first : ones();
  return with_version(pair_->comparison->values(held_->use().type, with));
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
