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
