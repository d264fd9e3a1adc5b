// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/proofs.h"

#include <algorithm>
#include <utility>

namespace cinch::hooks {
namespace {

constexpr std::uint32_t enough = 2;    // comparisons before a kind is used
constexpr std::uint64_t sampled = 64;  // later, one recipe in so many is compared

// The same for new kinds of a structure.
constexpr std::uint32_t enough_of_structure = 16;
constexpr std::uint64_t sampled_of_structure = 16;

// Outcomes that prove nothing, after which one recipe in `sampled` is compared.
constexpr std::uint32_t enough_neutral = 16;

// How often a kind may ask for its sources' values.
constexpr std::uint8_t most_unproved = 16;

// Bounds memory for programs whose shapes never repeat.
constexpr std::size_t most_kinds = 4096;

/// Whether all weights of a norm on the host are 1 and all its biases 0.
bool has_neutral_norm(const Recipe& recipe) {
  bool found = false;
  recipe.for_each_step([&](const Recipe::Step& step) { found |= step.is_neutral; });
  return found;
}

/// The key of the recipe's kind. Its structure begins with the site, and with whether neutral norms
/// make it a kind of its own, as they do where bits have to be equal.
Recipe::Key key_of(const Recipe& recipe, const Site& site, bool near_serves) {
  Recipe::Key key = recipe.key();
  const bool is_apart = !near_serves && has_neutral_norm(recipe);
  key.words.insert(key.words.begin(), {reinterpret_cast<std::intptr_t>(&site), is_apart ? 1 : 0});
  key.structure += 2;
  return key;
}

}  // namespace

bool Proofs::Kind::proves_new_kinds() const noexcept {
  return !refused && proved >= enough_of_structure;
}

/// The answer for a recipe that need not be compared now. @pre the lock is held
std::optional<Proofs::Answer> Proofs::known(Recipe& recipe, const Recipe::Key& key,
                                            Findings& findings) {
  if (kinds_.size() >= most_kinds) kinds_.clear();
  if (structures_.size() >= most_kinds) structures_.clear();
  Kind& kind = kinds_[key.words];
  if (!kind.awaited.empty()) take_outcomes(recipe, kind, structure_of(key), findings);
  if (kind.refused) return Answer::no;
  recipe.nanoseconds = kind.nanoseconds;
  const auto unless_sampled = [](std::uint64_t seen, std::uint64_t in) {
    return seen % in == 0 ? std::nullopt : std::optional(Answer::yes);
  };
  ++kind.seen;
  recipe.is_near |= kind.is_near;
  if (kind.proved >= enough) return unless_sampled(kind.seen, sampled);
  Kind& structure = structure_of(key);
  recipe.is_near |= structure.is_near;
  if (recipe.nanoseconds == 0) recipe.nanoseconds = structure.nanoseconds;
  if (!structure.proves_new_kinds()) {
    const bool suffices = kind.proved + kind.awaited.size() >= enough;
    const bool hardly_pays = kind.neutral >= enough_neutral && kind.seen % sampled != 0;
    return suffices || hardly_pays ? std::optional(Answer::no) : std::nullopt;
  }
  return unless_sampled(++structure.seen, sampled_of_structure);
}

/// Notes what has become known of the device's comparisons. @pre the lock is held
void Proofs::take_outcomes(const Recipe& recipe, Kind& kind, Kind& structure, Findings& findings) {
  std::erase_if(kind.awaited, [&](const std::shared_ptr<const Awaited>& each) {
    const auto outcome = each->outcome();
    if (outcome) note(recipe, kind, structure, *outcome, findings);
    return outcome.has_value();
  });
}

/// Notes the outcome of a comparison. @pre the lock is held
void Proofs::note(const Recipe& recipe, Kind& kind, Kind& structure, Comparison found,
                  Findings& findings) {
  const auto find = [&](const char* what) {
    findings.push_back(std::to_string(recipe.elements) + " elements: other " + what);
  };
  if (found == Comparison::different) {
    kind.refused = structure.refused = true;
    return find("bits than PyTorch's, so such tensors are stored");
  }
  if (found == Comparison::neutral) {
    ++kind.neutral;
    return;
  }
  if (found == Comparison::near && !kind.is_near) {
    find("roundings than PyTorch's, so such tensors are stored where they are held exactly");
  }
  for (Kind* each : {&kind, &structure}) {
    each->is_near |= found == Comparison::near;
    each->nanoseconds = recipe.nanoseconds;
    ++each->proved;
  }
}

Proofs::Kind& Proofs::structure_of(const Recipe::Key& key) {
  return structures_[Words(key.words.begin(),
                           key.words.begin() + static_cast<std::ptrdiff_t>(key.structure))];
}

Proofs::Answer Proofs::admits(Recipe& recipe, const Site& site, bool near_serves,
                              const std::function<Found()>& compare) {
  if (recipe.is_near && !near_serves) return Answer::no;
  Findings findings;
  const Answer found = answer(recipe, site, near_serves, compare, findings);
  for (std::string& each : findings) report_(recipe.label(), std::move(each));
  return found == Answer::yes && recipe.is_near && !near_serves ? Answer::no : found;
}

Proofs::Answer Proofs::answer(Recipe& recipe, const Site& site, bool near_serves,
                              const std::function<Found()>& compare, Findings& findings) {
  const Recipe::Key key = key_of(recipe, site, near_serves);
  {
    const std::lock_guard lock(mutex_);
    if (const auto answer = known(recipe, key, findings)) return *answer;
  }
  Found found = compare();
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[key.words];
  Kind& structure = structure_of(key);
  switch (found.comparison) {
    case Comparison::equal:
    case Comparison::near:
    case Comparison::different:
    case Comparison::neutral:
      note(recipe, kind, structure, found.comparison, findings);
      break;
    case Comparison::awaited:
      kind.awaited.push_back(std::move(found.awaited));
      return Answer::no;
    case Comparison::not_made:
      break;
  }
  recipe.is_near |= kind.proved >= enough ? kind.is_near : structure.is_near;
  const bool serves = kind.proved >= enough || structure.proves_new_kinds();
  if (serves && !kind.refused) return Answer::yes;
  const bool lacks = found.comparison == Comparison::not_made && kind.unproved < most_unproved;
  if (lacks) ++kind.unproved;
  return lacks ? Answer::unproved : Answer::no;
}

std::size_t Proofs::refused() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(kinds_, [](const auto& each) { return each.second.refused; }));
}

}  // namespace cinch::hooks
