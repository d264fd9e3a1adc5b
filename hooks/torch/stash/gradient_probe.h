// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Storage.h>

namespace cinch::hooks {

struct Entry;

/// A run of a node for measurement (gradients/node_runs.h), as the stash sees it: which values to
/// give, and who asked for them.
struct GradientProbe {
  enum class Purpose : std::uint8_t {
    guard,  ///< read: entries that the guard watches
    trial,  ///< read: entries that are tried; `replaced` is given another value
    peek,   ///< read: whatever is read; nothing is decoded, and zeros are given
  };
  bool exact = false;
  std::vector<Entry*> read;
  Purpose purpose = Purpose::guard;
  Entry* replaced = nullptr;
  c10::Storage replacement = {};
};

/// Makes `probe` the one that is under way on this thread.
class ProbeScope {
 public:
  explicit ProbeScope(GradientProbe& probe) noexcept;
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;
  ~ProbeScope();
};

/// The run that is under way on this thread; null in ordinary backwards.
GradientProbe* current_probe() noexcept;

}  // namespace cinch::hooks
