// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hooks/torch/stash/recipes/recipe.h"
#include "policy/adapting/look.h"

namespace cinch::hooks {

/// How an adaptive policy sees an entry that others are computed from.
struct SourceLayer {
  std::uint32_t layer = policy::no_layer;  ///< the director's number
  bool is_derived = false;                 ///< it is planned to be computed itself
};

/// Adds the director's layers that `recipe` computes from to `layers`: through those of its sources
/// that are none, but are derived themselves.
/// @param look_at Gives the SourceLayer of an entry
template <typename LookAt>
void add_layers_of_sources(const Recipe& recipe, const LookAt& look_at,
                           std::vector<std::uint32_t>& layers) {
  for (const Recipe::Source& source : recipe.sources()) {
    const SourceLayer seen = look_at(*source.entry);
    if (seen.layer != policy::no_layer) {
      layers.push_back(seen.layer);
    } else if (seen.is_derived) {
      add_layers_of_sources(*source.entry->recipe, look_at, layers);
    }
  }
}

/// What an adaptive policy is told of an entry that `recipe` computes: `layer` is the director's
/// number, and `bytes` are stored for it.
template <typename LookAt>
policy::Footprint::Derived derived_layer(const Recipe& recipe, std::uint32_t layer,
                                         std::size_t bytes, const LookAt& look_at) {
  const bool is_slow = recipe.is_attention() && recipe.device.is_cpu();
  policy::Footprint::Derived derived = {layer, bytes, {}, is_slow};
  add_layers_of_sources(recipe, look_at, derived.sources);
  return derived;
}

}  // namespace cinch::hooks
