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

#include "hooks/torch/stash/dry_run.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/nodes_that_read.h"
#include "hooks/torch/stash/statistics.h"
#include "hooks/torch/stash/timeline.h"
#include "policy/director.h"
#include "policy/policy.h"
#include "policy/state_file.h"

namespace cinch::hooks {

/// The loop between training and an adaptive policy: which step it is, what the stash held in it,
/// what backward was seen to do, and what the policy's director makes of that. A dry run takes the
/// director's place.
///
/// All of it is under the stash's lock. The first group of functions takes that lock; for the
/// others it is held.
class Adaptation {
 public:
  /// @param stash_lock, statistics, timeline The stash's @param dry_run Its; null in ordinary runs
  Adaptation(std::mutex& stash_lock, Statistics& statistics, Timeline& timeline, DryRun* dry_run)
      : mutex_(stash_lock), statistics_(statistics), timeline_(timeline), dry_run_(dry_run) {}

  /// What the step under way shall find out; nothing unless the policy adapts.
  policy::Wants wants() const;

  /// Shows the policy what a node did with `entry`.
  void observe(const Entry& entry, policy::Look look);

  /// The policy's number for what `entry` is; policy::no_layer where it has no say.
  std::uint32_t layer_of(const Entry& entry) const;

  /// Whether a node of this sequence number may read an entry that is tried.
  bool is_tried(std::uint32_t sequence) const;

  /// Keeps what the policy learned for a later run (the policy's "state_file"), in the process of
  /// rank 0. Says on stderr what goes wrong with that.
  void keep_learned() noexcept;

  /// `settings` are in force from now on; nothing is held. @return what there is to say of the old
  /// policy's state file, and the new one's
  std::vector<std::string> begin(const policy::Settings& settings);

  /// Null where nothing adapts.
  policy::Director* director() const noexcept { return director_.get(); }

  /// The stash begins to grow: what it held before is part of the step, and perhaps a new step
  /// begins.
  void begin_growth();

  /// The stash stopped growing and holds that much; its layers are known already.
  void measure(std::size_t raw_bytes, std::size_t stored_bytes);

  /// A new entry, which has been planned. @param planned_bytes What its plan needs where it lies
  /// @param peak Bytes of the activations at their peak, uncompressed
  void add(Entry& entry, std::size_t planned_bytes, std::size_t peak);

  /// A use of an entry that is tried goes.
  void forget(const Use& use) noexcept { tried_.remove(use); }

  /// What is to be printed when the lock is not held any more.
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
  policy::Footprint growing_footprint_;  // of the growth under way
  policy::Footprint footprint_;          // the step's largest
  std::uint64_t step_ = 0;
  std::uint64_t steps_seen_ = 0;  // optimizer steps when step_ began
  NodesThatRead tried_;           // what of entries that are tried
  std::string message_;
};

}  // namespace cinch::hooks
