// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace cinch::hooks {

struct Entry;

/// How the decoded values of a recipe's source err: evenly, by up to half a step
/// (codecs::EvenErrors).
struct SourceErrors {
  std::vector<float> steps;  ///< of each group; empty: the values err otherwise
  std::int64_t group = 1;    ///< elements
  std::int64_t plane = 1;

  /// Those of an entry in the host's memory. @pre entry.mutex() is held
  static SourceErrors of(const Entry& entry);
};

}  // namespace cinch::hooks
