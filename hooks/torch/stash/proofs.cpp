// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/proofs.h"

#include <algorithm>

#include "hooks/torch/stash/listeners.h"
#include "hooks/torch/stash/recipe.h"

namespace cinch::hooks {
namespace {

constexpr std::uint32_t enough = 2;    // equal comparisons before a kind is used
constexpr std::uint64_t sampled = 64;  // later, one recipe in so many is compared

// Bounds memory for programs whose shapes never repeat.
constexpr std::size_t most_kinds = 4096;

}  // namespace

std::size_t Proofs::Hash::operator()(const std::vector<std::int64_t>& key) const noexcept {
  std::uint64_t hash = 0;
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  return hash;
}

bool Proofs::admits(Recipe& recipe, const Site& site, const std::function<Comparison()>& compare) {
  std::vector<std::int64_t> key = recipe.key();
  key.push_back(reinterpret_cast<std::intptr_t>(&site));
  {
    const std::lock_guard lock(mutex_);
    if (kinds_.size() >= most_kinds) kinds_.clear();
    Kind& kind = kinds_[key];
    if (kind.refused) return false;
    recipe.nanoseconds = kind.nanoseconds;
    if (kind.equal >= enough && ++kind.seen % sampled != 0) return true;
  }
  const Comparison found = compare();
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[key];
  if (found == Comparison::equal) {
    kind.nanoseconds = recipe.nanoseconds;
    ++kind.equal;
  }
  if (found == Comparison::different) {
    kind.refused = true;
    tell(telemetry::EventKind::message,
         "%s: %lld elements: other bits than PyTorch's, so such tensors are stored",
         recipe.label().c_str(), static_cast<long long>(recipe.elements));
  }
  return !kind.refused && kind.equal >= enough;
}

std::size_t Proofs::refused() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(kinds_, [](const auto& each) { return each.second.refused; }));
}

}  // namespace cinch::hooks
