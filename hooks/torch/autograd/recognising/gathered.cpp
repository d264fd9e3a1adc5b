// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/gathered.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/nodes/weak_tensor.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
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

/// The numbers of places that an index chooses; undefined where recipes have none of its kind.
struct PickedPlaces {
  at::Tensor numbers;
  bool are_shared = false;  ///< with another recipe
};

at::Tensor room_for(std::int64_t count) {
  const BelowProgram guard;
  return at::empty({count}, at::kInt);
}

/// An index's numbers of places; negative ones count from the end.
template <typename T>
class Places {
 public:
  Places(const at::Tensor& index, std::int64_t places)
      : from_(index.const_data_ptr<T>()),
        stride_(index.dim() == 1 ? index.stride(0) : 1),
        count_(index.numel()),
        places_(places) {}

  /// @return undefined if a place is not there
  at::Tensor copy() const {
    at::Tensor made = room_for(count_);
    auto* const to = made.mutable_data_ptr<std::int32_t>();
    bool are_there = true;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t place = at(i);
      are_there &= place >= 0 && place < places_;
      to[i] = static_cast<std::int32_t>(place);
    }
    return are_there ? made : at::Tensor();
  }

  /// Whether that would give what `copy` holds.
  bool are_those_of(const at::Tensor& copy) const {
    if (copy.numel() != count_) return false;
    const auto* const to = copy.const_data_ptr<std::int32_t>();
    for (std::int64_t i = 0; i < count_; ++i) {
      if (at(i) != to[i] || to[i] >= places_) return false;
    }
    return true;
  }

 private:
  std::int64_t at(std::int64_t i) const {
    const auto given = static_cast<std::int64_t>(from_[i * stride_]);
    return given < 0 ? given + places_ : given;
  }

  const T* from_;
  std::int64_t stride_;
  std::int64_t count_;
  std::int64_t places_;
};

/// The thread's latest copies; `next` is the oldest one, to be replaced. All layers of a graph
/// network pick by the same edges.
struct Copies {
  std::array<WeakTensor, 8> all;
  std::size_t next = 0;
};
thread_local Copies copies;

/// A copy of the index, or one that other recipes hold.
template <typename T>
PickedPlaces shared_copy(const at::Tensor& index, std::int64_t places) {
  const Places<T> wanted(index, places);
  for (const WeakTensor& each : copies.all) {
    const at::Tensor known = each.lock();
    if (known.defined() && wanted.are_those_of(known)) return {known, true};
  }
  at::Tensor made = wanted.copy();
  if (!made.defined()) return {};
  copies.all[copies.next] = WeakTensor(made);
  copies.next = (copies.next + 1) % copies.all.size();
  return {std::move(made)};
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
PickedPlaces index_for(const at::Tensor& index, std::int64_t places, c10::Device device) {
  const bool is_mask = index.scalar_type() == at::kBool;
  if (!index.is_contiguous() && (index.dim() != 1 || is_mask)) return {};
  if (!device.is_cpu()) {
    // A mask's places are not known without waiting for the device.
    if (index.scalar_type() != at::kLong || index.device() != device) return {};
    const BelowProgram guard;
    return {index.dim() == 1 ? index : index.view({-1})};
  }
  if (!index.is_cpu()) return {};
  if (is_mask) return {places_of(index)};
  if (index.scalar_type() == at::kLong) return shared_copy<std::int64_t>(index, places);
  return index.scalar_type() == at::kInt ? shared_copy<std::int32_t>(index, places)
                                         : PickedPlaces();
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
  PickedPlaces picked = index_for(index, made.sizes[dim], device);
  if (!picked.numbers.defined()) return std::nullopt;
  made.step.index = std::move(picked.numbers);
  made.step.shares_index = picked.are_shared;
  if (!has_picked(want.sizes, made.sizes, dim, made.step.index.numel())) return std::nullopt;
  return made;
}

}  // namespace cinch::hooks
