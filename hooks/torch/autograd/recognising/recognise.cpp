// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/recognise.h"

#include <exception>
#include <optional>

#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/nodes/node_lock.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/recipe_maker.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

/// The layout of a tensor that fills its storage, from the first byte; nullopt for others.
std::optional<Layout> filling_layout(const at::Tensor& tensor) {
  const bool fits = has_recipes(tensor.scalar_type()) && (tensor.is_cpu() || tensor.is_cuda()) &&
                    tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
                    tensor.storage().nbytes() == tensor.nbytes();
  if (!fits) return std::nullopt;
  return layout_of(tensor);
}

/// What the stash holds of the log-sum-exp that fused attention saved; null: nothing.
const HeldTensor* held_log_sum_exp(torch::autograd::Node& attention) {
  const NodeLock lock(attention);
  const auto saved = lock ? attention_step(attention) : std::nullopt;
  return saved ? held_by_stash(*saved->log_sum_exp) : nullptr;
}

/// Derives the log-sum-exp, too, where that is proved. PyTorch saves it before the output.
void pair_with_log_sum_exp(torch::autograd::Node& attention, Recipe& output) {
  const HeldTensor* const held = held_log_sum_exp(attention);
  if (held == nullptr || !held->is_as_saved()) return;
  const at::Tensor actual = held->exact();
  const auto layout = actual.defined() ? filling_layout(actual) : std::nullopt;
  if (!layout) return;
  RecipeMaker maker(*layout, actual, *held->use().site, RecipeMaker::Derived::held);
  if (!maker.make_log_sum_exp(attention)) return;
  auto recipe = maker.take(held->saved_version());
  if (recipe != nullptr) {
    stash().derivation().pair(output, *held->entry(), std::move(recipe));
  }
}

}  // namespace

OfferedRecipe recognise(const at::Tensor& tensor, Site& site) noexcept try {
  const at::Tensor base = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  const auto& grad_fn = base.grad_fn();
  if (grad_fn == nullptr) return nullptr;
  const NodeKind kind = kind_of(*grad_fn);
  if (kind == NodeKind::other || kind == NodeKind::matrix_product) return nullptr;
  const auto layout = filling_layout(base);
  if (!layout || stash().lists().is_waiting(base.storage())) return nullptr;
  const std::uint32_t version = torch::autograd::impl::version_counter(base).current_version();
  const auto output = static_cast<std::uint32_t>(base.output_nr());
  const AtWork here;  // a proof is worth no rescue
  using enum RecipeMaker::Derived;
  for (const auto derived : {computed, held}) {
    RecipeMaker maker(*layout, base, site, derived);
    auto recipe = maker.make(*grad_fn, output) ? maker.take(version) : nullptr;
    if (recipe != nullptr && recipe->is_attention()) pair_with_log_sum_exp(*grad_fn, *recipe);
    // Under a lossy policy the sources of what is derived may be approximations by now, with which
    // no recipe can be proved; what is derived was saved later.
    if (recipe != nullptr || !maker.has_computed_derived()) return recipe;
  }
  return nullptr;
} catch (const std::exception&) {
  return nullptr;
}

}  // namespace cinch::hooks
