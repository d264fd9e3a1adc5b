// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/saved/words.h"

namespace cinch::hooks {

/// Learns which operands' errors are magnified by what the program computes from them later
/// (decompositions.h). An operand is known by where it is saved and by how it lies in memory, which
/// is the same in each step. Forgets all of a kind when there are thousands. The stash's lock
/// guards all but any_nodes().
class Magnified {
 public:
  /// Adds nodes whose gradients magnify errors, by the lower halves of their numbers, which repeat
  /// among forward threads. @throws std::bad_alloc
  void add(std::span<const std::uint32_t> nodes);

  /// Whether any nodes were added. Needs no lock.
  bool any_nodes() const noexcept { return any_nodes_.load(std::memory_order_relaxed); }

  /// Backward reads `use`: learns its operand, if the node is one of those. @return whether it was
  /// not known @throws std::bad_alloc
  bool learn(const Use& use);

  /// Marks the entry's uses by such nodes, and of operands that were learned. @throws
  /// std::bad_alloc
  void mark(const Entry& entry);

 private:
  static constexpr std::size_t most = 4096;

  const Words& key_of(const Use& use);

  std::unordered_set<std::uint32_t> nodes_;
  std::unordered_set<Words, HashOfWords> operands_;
  Words key_;
  std::atomic<bool> any_nodes_{false};
};

}  // namespace cinch::hooks
