// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/proofs.h"

#include <algorithm>

#include "hooks/torch/stash/listeners.h"
#include "hooks/torch/stash/recipe.h"

namespace cinch::hooks {
namespace {

constexpr std::uint32_t enough = 2;    // equal comparisons before a kind is used
constexpr std::uint64_t sampled = 64;  // later, one recipe in so many is compared

// The same for new kinds of a structure.
constexpr std::uint32_t enough_of_structure = 16;
constexpr std::uint64_t sampled_of_structure = 16;

// Bounds memory for programs whose shapes never repeat.
constexpr std::size_t most_kinds = 4096;

}  // namespace

std::size_t Proofs::Hash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = 0;
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  return hash;
}

/// Whether the recipe has to be compared now. If not, sets whether it may be used.
/// @pre the lock is held
bool Proofs::is_due(Recipe& recipe, const Key& kind_key, const Key& structure_key, bool& admitted) {
  if (kinds_.size() >= most_kinds) kinds_.clear();
  if (structures_.size() >= most_kinds) structures_.clear();
  Kind& kind = kinds_[kind_key];
  const Kind& structure = structures_[structure_key];
  recipe.nanoseconds = kind.nanoseconds != 0 ? kind.nanoseconds : structure.nanoseconds;
  if (kind.refused) {
    admitted = false;
    return false;
  }
  admitted = true;
  if (recipe.infers_number) return true;
  ++kind.seen;
  if (kind.equal >= enough) return kind.seen % sampled == 0;
  const bool is_known = !structure.refused && structure.equal >= enough_of_structure;
  return !is_known || ++structures_[structure_key].seen % sampled_of_structure == 0;
}

bool Proofs::admits(Recipe& recipe, const Site& site, const std::function<Comparison()>& compare) {
  const auto where = reinterpret_cast<std::intptr_t>(&site);
  Key kind_key = recipe.key();
  Key structure_key = recipe.structure();
  kind_key.push_back(where);
  structure_key.push_back(where);
  {
    const std::lock_guard lock(mutex_);
    bool admitted = false;
    if (!is_due(recipe, kind_key, structure_key, admitted)) return admitted;
  }
  const Comparison found = compare();
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[kind_key];
  Kind& structure = structures_[structure_key];
  switch (found) {
    case Comparison::equal:
      for (Kind* each : {&kind, &structure}) {
        each->nanoseconds = recipe.nanoseconds;
        ++each->equal;
      }
      break;
    case Comparison::different:
      kind.refused = structure.refused = true;
      tell(telemetry::EventKind::message,
           "%s: %lld elements: other bits than PyTorch's, so such tensors are stored",
           recipe.label().c_str(), static_cast<long long>(recipe.elements));
      break;
    case Comparison::no_recipe:
      kind.refused = true;
      break;
    case Comparison::not_made:
      break;
  }
  if (recipe.infers_number) return found == Comparison::equal;
  const bool is_known = !structure.refused && structure.equal >= enough_of_structure;
  return !kind.refused && (kind.equal >= enough || is_known);
}

std::size_t Proofs::refused() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(kinds_, [](const auto& each) { return each.second.refused; }));
}

}  // namespace cinch::hooks
