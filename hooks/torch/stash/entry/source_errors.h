// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codecs/codec.h"

namespace cinch::hooks {

struct Entry;

/// How the decoded values of a recipe's source err: evenly, by up to half a step
/// (codecs::EvenErrors).
struct SourceErrors {
  std::vector<float> steps;  ///< of each group of a source in the host's memory; empty: see below
  codecs::GroupOrder order;
  /// A source on a CUDA device, whose encoded bytes hold the steps. Null, without `steps`: the
  /// values err otherwise.
  Entry* on_device = nullptr;

  bool are_even() const noexcept { return !steps.empty() || on_device != nullptr; }

  /// Those of an entry in the host's memory. @pre entry.mutex() is held
  static SourceErrors of(const Entry& entry);
};

/// How an entry's decoded values err; nullopt if it is not encoded, or they err otherwise.
/// @pre entry.mutex() is held
std::optional<codecs::EvenErrors> even_errors(const Entry& entry);

}  // namespace cinch::hooks
