// SPDX-License-Identifier: Apache-2.0
//
// The operators that move elements: copies, rolls, picks, joins and max-pools.
#include <utility>

#include <ATen/WrapDimUtils.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/accumulate.h>

#include "hooks/torch/autograd/nodes/gathered_inputs.h"
#include "hooks/torch/autograd/nodes/node_lock.h"
#include "hooks/torch/autograd/nodes/node_views.h"
#include "hooks/torch/autograd/recognising/gathered.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/recipe_maker.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;

// How many times as large as an unsaved input is what is picked out of it, at least. A sum of what
// is picked out of two inputs has both.
constexpr std::int64_t least_gain = 3;

}  // namespace

bool RecipeMaker::make_copy(Node& node, const Layout& want, Value& to) {
  return find(node.next_edge(0), want, to) && to.layout().sizes == want.sizes &&
         extend(to, step_of(Operator::copy, node), want);
}

bool RecipeMaker::make_rolled(generated::RollBackward0& node, const Layout& want, Value& to) {
  return find(node.next_edge(0), want, to) && to.layout().sizes == want.sizes &&
         extend(to, roll_step(node, want), want);
}

/// Builds what the node picked out of the value that its edge leads to.
bool RecipeMaker::make_gathered(Node& node, const Layout& want, Value& to) {
  const Edge& edge = node.next_edge(0);
  const auto sizes = edge.is_valid() ? output_sizes(*edge.function, edge.input_nr) : std::nullopt;
  if (!sizes) return false;
  std::optional<Gathered> gathered;
  if (const NodeLock lock(node); lock) {
    gathered = gathered_by(node, *sizes, want, recipe_->device);
  }
  if (!gathered || !find_gathered(node, contiguous(*sizes), want.elements(), to)) return false;
  if (to.type() != type_of(node)) return false;
  if (gathered->sizes != *sizes) {
    auto flat = view(to.layout(), gathered->sizes);
    if (!flat) return false;
    take_view(*std::move(flat), to);
  }
  return extend(to, std::move(gathered->step), want);
}

/// Builds the input of a node that picks something out of it. Where that is larger, and derived
/// itself, it is held: it is computed once for all that is picked out of it, such as each expert's
/// tokens. If it can't be built but is much smaller, it is held for what is picked alone: a layer's
/// output, say, that is the message on each of a graph's edges.
bool RecipeMaker::find_gathered(Node& node, const Layout& input, std::int64_t picked, Value& to) {
  const Edge& edge = node.next_edge(0);
  const Mark mark_before = mark();
  const Derived before = derived_;
  if (picked < input.elements()) derived_ = Derived::held;
  const bool is_found = find(edge, input, to) && to.layout().sizes == input.sizes;
  derived_ = before;
  if (is_found) return true;
  go_back(mark_before, to);
  if (picked < least_gain * input.elements()) return false;
  const at::Tensor known = gathered_inputs::find(node);
  return known.defined() && known.grad_fn() == edge.function &&
         known.sizes() == c10::IntArrayRef(input.sizes) && sources_.hold_copy(known, site_, to);
}

bool RecipeMaker::make_cat(generated::CatBackward0& node, const Layout& want, Value& to) {
  const auto& all_sizes = node.tensors_args_sizes_symint;
  if (all_sizes.size() != node.num_outputs()) return false;
  return make_joined(node, node.dim, want, to, [&](std::size_t i, Value& part) {
    const auto sizes = c10::asIntArrayRefSlowOpt(all_sizes[i]);
    if (sizes && *sizes == c10::IntArrayRef({0})) return true;  // as a cache of keys begins
    return sizes && sizes->size() == want.sizes.size() &&
           find(node.next_edge(i), dense_like(*sizes, want), part) &&
           c10::IntArrayRef(part.layout().sizes) == *sizes;
  });
}

bool RecipeMaker::make_stack(generated::StackBackward0& node, const Layout& want, Value& to) {
  c10::DimVector slice = want.sizes;
  if (slice.empty()) return false;
  const auto rank = static_cast<std::int64_t>(slice.size());
  slice[static_cast<std::size_t>(at::maybe_wrap_dim(node.dim, rank))] = 1;
  return make_joined(node, node.dim, want, to, [&](std::size_t i, Value& part) {
    if (!find_of_any_sizes(node.next_edge(i), contiguous({}), part)) return false;
    auto seen = view(part.layout(), slice);
    if (seen) take_view(*std::move(seen), part);
    return seen.has_value();
  });
}

/// Builds values that are joined along a dimension. @param make Builds the part that an edge leads
/// to; leaves it as it is if it is empty
template <typename Make>
bool RecipeMaker::make_joined(Node& node, std::int64_t dim, const Layout& want, Value& to,
                              const Make& make) {
  const auto rank = static_cast<std::int64_t>(want.sizes.size());
  if (rank == 0) return false;
  to.joined = at::maybe_wrap_dim(dim, rank);
  to.start = want;
  to.start_type = type_of(node);
  for (std::size_t i = 0; i < node.num_outputs(); ++i) {
    Value part;
    if (!make(i, part)) return false;
    if (part.layout().sizes.empty()) continue;
    if (part.type() != to.start_type) return false;
    to.parts.push_back(std::move(part));
  }
  return !to.parts.empty();
}

/// @param saved, saved_indices Where the node saved its operand, and which elements it picked
bool RecipeMaker::make_max_pool(Node& node, SavedVariable& saved, SavedVariable& saved_indices,
                                const Layout& want, Value& to) {
  constexpr std::size_t first = 2;  // dimensions of an image begin here
  const NodeLock lock(node);
  if (!lock || !sources_.hold_value(saved, to) || want.sizes.size() <= first) return false;
  const Layout pooled = to.layout();
  if (pooled.sizes.size() != want.sizes.size() || !channel_order(want, 1) ||
      !channel_order(pooled, 1)) {
    return false;
  }
  const bool last = !is_contiguous(want);
  if (last == is_contiguous(pooled)) return false;
  const HeldTensor* indices = held_by_stash(saved_indices);
  if (indices == nullptr || indices->use().type != at::kLong) return false;
  const auto held = sources_.hold_alike(*indices, want);
  if (!held) return false;
  Step made = step_of(Operator::max_pool, node);
  made.indices = *held;
  const auto plane_of = [&](const Layout& layout) {
    return c10::multiply_integers(layout.sizes.begin() + first, layout.sizes.end());
  };
  const std::int64_t planes = want.sizes[0] * (last ? 1 : want.sizes[1]);
  made.pool = {planes, last ? want.sizes[1] : 1, plane_of(pooled), plane_of(want)};
  return extend(to, std::move(made), want);
}

}  // namespace cinch::hooks
