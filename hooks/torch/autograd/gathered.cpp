// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/gathered.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/node_kinds.h"
#include "hooks/torch/autograd/node_steps.h"
#include "hooks/torch/autograd/saved_constants.h"
#include "hooks/torch/program/below_program.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using c10::multiply_integers;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

// Bytes picked at one place, for which the index takes 4.
constexpr std::size_t least_picked = 64;
// Inputs are decoded whole: at most so many times what is picked out of them.
constexpr std::int64_t most_input = 8;

/// A node's only index, and the first dimension that it is for.
struct SavedIndex {
  SavedVariable* index = nullptr;
  std::int64_t dim = 0;
};

std::optional<SavedIndex> index_of(Node& node, std::int64_t rank) {
  if (kind_of(node) == NodeKind::index_select) {
    auto& selected = static_cast<generated::IndexSelectBackward0&>(node);
    return SavedIndex{&selected.index_, at::maybe_wrap_dim(selected.dim, rank)};
  }
  auto& all = static_cast<generated::IndexBackward0&>(node).indices_;
  const auto is_given = [](SavedVariable& saved) { return saved_constants::has_data(saved); };
  const auto first = std::ranges::find_if(all, is_given);
  if (first == all.end() || std::any_of(first + 1, all.end(), is_given)) return std::nullopt;
  return SavedIndex{&*first, first - all.begin()};
}

at::Tensor room_for(std::int64_t count) {
  const BelowProgram guard;
  return at::empty({count}, at::kInt);
}

/// Numbers of places; negative ones count from the end. @return undefined if one is not there
template <typename T>
at::Tensor copy_of(const at::Tensor& index, std::int64_t places) {
  at::Tensor made = room_for(index.numel());
  const T* const from = index.const_data_ptr<T>();
  auto* const to = made.mutable_data_ptr<std::int32_t>();
  const std::int64_t stride = index.dim() == 1 ? index.stride(0) : 1;
  bool are_there = true;
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const auto given = static_cast<std::int64_t>(from[i * stride]);
    const std::int64_t place = given < 0 ? given + places : given;
    are_there &= place >= 0 && place < places;
    to[i] = static_cast<std::int32_t>(place);
  }
  return are_there ? made : at::Tensor();
}

at::Tensor places_of(const at::Tensor& mask) {
  const bool* const flags = mask.const_data_ptr<bool>();
  const bool* const end = flags + mask.numel();
  at::Tensor made = room_for(std::count(flags, end, true));
  auto* to = made.mutable_data_ptr<std::int32_t>();
  for (const bool* flag = flags; flag != end; ++flag) {
    if (*flag) *to++ = static_cast<std::int32_t>(flag - flags);
  }
  return made;
}

/// The index as a recipe holds it. @param places How many it chooses from
/// @return undefined where recipes have none of this kind
at::Tensor index_for(const at::Tensor& index, std::int64_t places, c10::Device device) {
  const bool is_mask = index.scalar_type() == at::kBool;
  if (!index.is_contiguous() && (index.dim() != 1 || is_mask)) return {};
  if (!device.is_cpu()) {
    // A mask's places are not known without waiting for the device.
    if (index.scalar_type() != at::kLong || index.device() != device) return {};
    const BelowProgram guard;
    return index.dim() == 1 ? index : index.view({-1});
  }
  if (!index.is_cpu()) return {};
  if (is_mask) return places_of(index);
  if (index.scalar_type() == at::kLong) return copy_of<std::int64_t>(index, places);
  return index.scalar_type() == at::kInt ? copy_of<std::int32_t>(index, places) : at::Tensor();
}

/// Whether `result` is `input` with `count` places of dimension `dim`, in as many dimensions as the
/// index has.
bool has_picked(c10::IntArrayRef result, c10::IntArrayRef input, std::size_t dim,
                std::int64_t count) {
  const std::size_t behind = input.size() - dim - 1;
  if (result.size() < dim + behind) return false;
  const std::size_t of_index = result.size() - dim - behind;
  return result.slice(0, dim) == input.slice(0, dim) &&
         result.slice(dim + of_index) == input.slice(dim + 1) &&
         multiply_integers(result.slice(dim, of_index)) == count;
}

/// The input's sizes, with the dimensions that the index is for as one. @return nullopt if the
/// index is not for this input, or not small beside what it picks
std::optional<c10::DimVector> indexed_sizes(const c10::DimVector& input, const at::Tensor& index,
                                            std::size_t dim, std::size_t element_size) {
  const bool is_mask = index.scalar_type() == at::kBool;
  const std::size_t covered = is_mask ? static_cast<std::size_t>(index.dim()) : 1;
  const c10::IntArrayRef all = input;
  if (covered == 0 || dim + covered > all.size()) return std::nullopt;
  if (is_mask && all.slice(dim, covered) != index.sizes()) return std::nullopt;
  c10::DimVector sizes(all.slice(0, dim));
  sizes.push_back(multiply_integers(all.slice(dim, covered)));
  sizes.append(all.begin() + dim + covered, all.end());
  const std::int64_t places = sizes[dim];
  const std::int64_t picked = places == 0 ? 0 : multiply_integers(all) / places;
  const bool is_small = static_cast<std::size_t>(picked) * element_size >= least_picked;
  if (!is_small || places > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return sizes;
}

}  // namespace

std::optional<Gathered> gathered_by(Node& node, const c10::DimVector& input, const Layout& want,
                                    c10::Device device) {
  const auto rank = static_cast<std::int64_t>(input.size());
  if (rank == 0 || multiply_integers(input) > most_input * want.elements()) return std::nullopt;
  const auto saved = index_of(node, rank);
  if (!saved || (saved->index->has_hooks() && !device.is_cpu())) return std::nullopt;
  const at::Tensor index = saved_constants::find(*saved->index);
  if (!index.defined() || index.layout() != c10::kStrided) return std::nullopt;
  // Operators give one dimension for the index: others need a view of the result.
  const bool is_viewed = index.scalar_type() != at::kBool && index.dim() != 1;
  if (is_viewed && !is_contiguous(want)) return std::nullopt;
  const auto dim = static_cast<std::size_t>(saved->dim);
  auto sizes = indexed_sizes(input, index, dim, c10::elementSize(type_of(node)));
  if (!sizes) return std::nullopt;
  Gathered made{step_of(Recipe::Operator::gather, node), *std::move(sizes)};
  made.step.dim = saved->dim;
  made.step.index = index_for(index, made.sizes[dim], device);
  if (!made.step.index.defined()) return std::nullopt;
  if (!has_picked(want.sizes, made.sizes, dim, made.step.index.numel())) return std::nullopt;
  return made;
}

}  // namespace cinch::hooks
