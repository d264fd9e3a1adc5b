// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hooks/torch/stash/adapting/dry_run.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/nodes_that_read.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/lists/timeline.h"
#include "policy/adapting/director.h"
#include "policy/file/state_file.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// The loop between training and an adaptive policy: tells the policy's director of steps, of what
/// the stash held in them, and of looks at backward. A dry run takes the director's place.
///
/// All of it is under the stash's lock. The first group of functions takes that lock; for the
/// others the caller holds it.
class Adaptation {
 public:
  /// @param stash_lock, statistics, timeline The stash's @param dry_run Null in ordinary runs
  Adaptation(std::mutex& stash_lock, Statistics& statistics, Timeline& timeline, DryRun* dry_run)
      : mutex_(stash_lock), statistics_(statistics), timeline_(timeline), dry_run_(dry_run) {}

  /// What the current step's looks shall measure; nothing unless the policy adapts.
  policy::Wants wants() const;

  /// Shows the policy a look at a node that reads `entry`.
  void observe(const Entry& entry, policy::Look look);

  /// The policy's number for `entry`'s layer; policy::no_layer where the policy doesn't choose.
  std::uint32_t layer_of(const Entry& entry) const;

  /// Whether a node of this sequence number may read an entry that is tried.
  bool is_tried(std::uint32_t sequence) const;

  /// In the process of rank 0, writes what the policy learned to its "state_file", for a later run.
  /// Reports errors on stderr.
  void keep_learned() noexcept;

  /// `settings` are in force from now on. @return messages on the old policy's state file and the
  /// new one's, each maybe empty @pre no entry is held
  std::vector<std::string> begin(const policy::Settings& settings);

  /// Null where nothing adapts.
  policy::Director* director() const noexcept { return director_.get(); }

  /// A growth begins: takes the last growth's footprint if it is the step's largest, and perhaps
  /// begins a new step.
  void begin_growth();

  /// A growth has ended, and the stash holds these bytes.
  void measure(std::size_t raw_bytes, std::size_t stored_bytes);

  /// A new entry was planned. @param planned_bytes Expected size of what stays where it lies
  /// @param peak Bytes of the activations at their peak, uncompressed
  void add(Entry& entry, std::size_t planned_bytes, std::size_t peak);

  /// A use of an entry that is tried was removed.
  void forget(const Use& use) noexcept { tried_.remove(use); }

  /// Takes the message to print once the lock is released; maybe empty.
  std::string take_message() noexcept { return std::exchange(message_, {}); }

 private:
  void begin_step();
  std::string save_learned();
  void note_choice(const Entry& entry);

  std::mutex& mutex_;
  Statistics& statistics_;
  Timeline& timeline_;
  DryRun* const dry_run_;
  std::atomic<bool> adapts_{false};  // whether there is a director
  std::unique_ptr<policy::Director> director_;
  policy::StateFile state_file_{""};
  policy::Footprint growing_footprint_;  // of the current growth
  policy::Footprint footprint_;          // the step's largest
  std::uint64_t step_ = 0;
  std::uint64_t steps_seen_ = 0;  // optimizer steps when step_ began
  NodesThatRead tried_;           // of entries that are tried
  std::string message_;
};

}  // namespace cinch::hooks
