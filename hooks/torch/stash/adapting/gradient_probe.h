// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Storage.h>

namespace cinch::hooks {

struct Entry;

/// A run of an autograd node for a measurement (gradients/node_runs.h): tells the stash which
/// values to give, and collects the entries that the node reads.
struct GradientProbe {
  enum class Purpose : std::uint8_t {
    guard,  ///< `read` collects entries that the guard watches
    trial,  ///< `read` collects entries that are tried; `replaced` reads as `replacement`
    peek,   ///< `read` collects all entries; nothing is decoded, storages have no values
  };
  bool exact = false;
  std::vector<Entry*> read;
  Purpose purpose = Purpose::guard;
  Entry* replaced = nullptr;
  c10::Storage replacement = {};
  /// What was given with `exact` for an entry of which only a part is exact; the rest is as held.
  struct Mixed {
    const Entry* entry;
    c10::Storage values;
    double share;  ///< the part's
  };
  std::vector<Mixed> mixed = {};

  /// The values that were given for `entry`; null where they were not mixed.
  c10::Storage mixed_values(const Entry& entry) const;
  /// The share of the entry's values that were given exactly; 1 where they were not mixed.
  double exact_share(const Entry& entry) const;
};

/// Makes `probe` this thread's current_probe() for its scope.
class ProbeScope {
 public:
  explicit ProbeScope(GradientProbe& probe) noexcept;
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;
  ~ProbeScope();
};

/// The measurement under way on this thread; null in ordinary backwards.
GradientProbe* current_probe() noexcept;

}  // namespace cinch::hooks
