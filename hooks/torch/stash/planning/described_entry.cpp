// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/described_entry.h"

#include <algorithm>
#include <bit>
#include <variant>

#include <torch/version.h>

#include "hooks/torch/program/compiled_region.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {
namespace {

constexpr std::int64_t page_bytes = 4096;

// Since 2.14 clamp's gradient at a bound is 0, as hardtanh's always was.
constexpr bool clamp_leaves_out_ends = TORCH_VERSION_MAJOR > 2 ||
                                       (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 14);

// The names that policies are told. None if the program itself reads what this site saves, which
// takes values.
const SiteNames& known_names_of(const Use& use) {
  static const SiteNames unknown;
  return use.site->shown() && !use.site->python() ? unknown : names_of(use);
}

policy::Origin origin_of(const Use& use) {
  if (!use.site->python()) return policy::Origin::op;
  const bool compiled = is_compiled_region(names_of(use).op.c_str());
  return compiled ? policy::Origin::compiled : policy::Origin::function;
}

std::array<std::int64_t, 3> index_extent(const Use& use) {
  const auto* extent = std::get_if<Extent>(&use.operator_says);
  if (extent == nullptr) return {0, 0, 0};
  return {(*extent)[0], (*extent)[1], (*extent)[2]};
}

std::array<float, 2> numbers(const Use& use) {
  const auto* numbers = std::get_if<std::array<float, 2>>(&use.operator_says);
  return numbers == nullptr ? policy::Use().numbers : *numbers;
}

float exponent(const Use& use) {
  const auto* exponent = std::get_if<Exponent>(&use.operator_says);
  return exponent == nullptr ? 0 : exponent->value;
}

bool reduces_linearly(const Use& use) {
  const auto* reduction = std::get_if<Reduction>(&use.operator_says);
  return reduction != nullptr && reduction->is_linear;
}

// Whether the storage is a workspace of float32 numbers, in whole pages, as oneDNN makes it. What
// it keeps for numbers of other types is a mixture of types.
bool is_float_workspace(const Use& use) {
  const auto* numbers = std::get_if<Numbers>(&use.operator_says);
  if (numbers == nullptr || numbers->type != c10::ScalarType::Float) return false;
  const c10::IntArrayRef sizes = use.geometry.sizes();
  return use.type == c10::ScalarType::Byte && sizes.size() == 1 && sizes[0] % page_bytes == 0 &&
         use.geometry.offset() == 0;
}

// Whether `use` is an operand of fused attention of which both parts are going to be derived.
// @param by_pair The entry's use_by_pair() pre: the stash's lock is held
bool is_recomputed(const RecipesUse* by_pair, const Use& use) {
  for (const RecipesUse* each = by_pair; each != nullptr; each = use_by_pair(each->next)) {
    if (each->site != use.site || each->sequence != use.sequence) continue;
    return !each->recipe->pair->is_stored();
  }
  return false;
}

void append(Words& key, const Geometry* geometry) {
  const auto words = geometry == nullptr ? c10::IntArrayRef() : geometry->words();
  key.push_back(static_cast<std::int64_t>(words.size()));
  key.push_back(geometry == nullptr ? -1 : static_cast<std::int64_t>(geometry->rank()));
  key.insert(key.end(), words.begin(), words.end());
  key.push_back(geometry == nullptr ? 0 : geometry->offset());
}

}  // namespace

const SiteNames& names_of(const Use& use) {
  static const SiteNames unknown;
  const SiteNames* names = use.site->names();
  return names == nullptr ? unknown : *names;
}

DescribedEntry::DescribedEntry(const Entry& of, bool derives) {
  bool is_source = false;
  const RecipesUse* const by_pair = derives ? use_by_pair(of.first_use) : nullptr;
  for (const Use* use = of.first_use; use != nullptr; use = use->next) {
    if (!counts(*use, derives)) continue;
    is_source |= use->is_recipes;
    const SiteNames& names = known_names_of(*use);
    auto type = element_type(use->type);
    auto geometry = views.of(use->geometry);
    const bool has_gaps = is_float_workspace(*use);
    if (has_gaps) {
      type = codecs::ElementType::float32;
      geometry = views.of_rows(use->geometry.sizes()[0] / page_bytes, page_bytes / 4);
    }
    uses.push_back({.op = names.op,
                    .operand = names.operand,
                    .is_output = use->is_output,
                    .type = type,
                    .geometry = geometry,
                    .index_extent = index_extent(*use),
                    .origin = origin_of(*use),
                    .numbers = numbers(*use),
                    .clamp_leaves_out_ends = clamp_leaves_out_ends,
                    .exponent = exponent(*use),
                    .is_linear_reduction = reduces_linearly(*use),
                    .is_comparison_held = use->is_comparison_held,
                    .is_magnified = use->is_magnified,
                    .is_linear_output = use->is_linear_output,
                    .is_complex = c10::isComplexType(use->type),
                    .has_gaps = has_gaps,
                    .is_recipes = use->is_recipes,
                    .is_argument = use->is_argument,
                    .is_recomputed = is_recomputed(by_pair, *use),
                    .reads = names.reads});
  }
  const Geometry* cover = of.cover.get();
  entry = {of.raw_bytes, uses, cover == nullptr ? policy::Geometry{} : views.of(*cover), nullptr,
           of.device != nullptr};
  entry.derivable = derives && of.recipe != nullptr;
  entry.is_source = is_source;
}

void set_class_key(const Entry& entry, bool derives, Words& key) {
  key.clear();
  key.push_back(static_cast<std::int64_t>(entry.raw_bytes));
  key.push_back(entry.device == nullptr ? -1 : entry.raw.device().index());
  append(key, entry.cover.get());
  if (entry.recipe != nullptr) {
    const auto recipe = entry.recipe->key().words;
    key.insert(key.end(), recipe.begin(), recipe.end());
    key.push_back((entry.recipe->is_near ? 1 : 0) + (entry.recipe->pair != nullptr ? 2 : 0));
  }
  const RecipesUse* const by_pair = derives ? use_by_pair(entry.first_use) : nullptr;
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (!counts(*use, derives)) continue;
    key.push_back(reinterpret_cast<std::intptr_t>(&known_names_of(*use)));
    key.push_back(reinterpret_cast<std::intptr_t>(use->site->names()));
    key.push_back(static_cast<std::int64_t>(use->type) * 512 + (use->is_output ? 1 : 0) +
                  (use->is_recipes ? 2 : 0) + (reduces_linearly(*use) ? 4 : 0) +
                  (is_float_workspace(*use) ? 8 : 0) + (is_recomputed(by_pair, *use) ? 16 : 0) +
                  (use->is_comparison_held ? 32 : 0) + (use->is_magnified ? 64 : 0) +
                  (use->is_argument ? 128 : 0) + (use->is_linear_output ? 256 : 0));
    const auto extent = index_extent(*use);
    key.insert(key.end(), extent.begin(), extent.end());
    key.push_back(std::bit_cast<std::int64_t>(numbers(*use)));
    key.push_back(std::bit_cast<std::int32_t>(exponent(*use)));
    append(key, &use->geometry);
  }
}

}  // namespace cinch::hooks
