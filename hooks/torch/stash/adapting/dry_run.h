// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "agent/telemetry/report.h"
#include "codecs/codec.h"
#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/adapting/contender.h"
#include "hooks/torch/stash/entry/entry.h"
#include "policy/adapting/look.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// Measures what each of several policies would hold of a program's activations, while the program
/// trains uncompressed. A first step measures what the program needs by itself. If any policy
/// adapts, a second step shows training to it. In the last step every entry is encoded and decoded
/// as each policy would, and backward's nodes are run on the decoded values for measurement. The
/// program's own results don't change.
///
/// Thread-safe; its lock is taken after the stash's and after entries' locks. Entries on a device
/// are not encoded: their sizes are the plans', their errors are unknown.
class DryRun {
 public:
  explicit DryRun(std::vector<policy::Settings> policies);
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  /// A growth begins. @param new_step Whether it is in another step than the last growth
  void begin_growth(bool new_step);

  /// Whether all steps are over. Returns true only once.
  bool take_done();

  /// A backward begins: in the first step, memory is at its peak.
  /// @param not_settled Bytes of the stash's entries that were not added
  void end_growth(std::size_t not_settled);

  /// Notes a leaf that takes a gradient of `bytes`.
  void saw_parameter(const void* identity, std::size_t bytes);

  /// Whether any policy derives values by recipes.
  bool derives() const noexcept { return derives_; }

  /// Whether any policy would derive `entry`, as measure() found.
  bool has_derived(const Entry& entry) const;

  /// What the current step's looks shall measure.
  policy::Wants wants() const;

  /// Plans a new entry under each policy. @param layer The stash's number for its layer
  /// @return whether to run trials of nodes that read it
  bool add(const Entry& entry, std::uint32_t layer);

  /// Encodes the entry as each policy would, or counts it as derived. @pre entry.mutex() is held,
  /// the entry was added and is raw
  void measure(const Entry& entry, codecs::ParallelFor parallel_for);

  /// The entry is deleted.
  void forget(const Entry& entry);

  /// Shows a look at a node to the policies that adapt; in the last step counts errors of trials.
  void observe(const Entry& entry, std::uint32_t layer, const policy::Look& look);

  /// The plans to try on nodes that read `entry`, with their indices in Look::trials.
  Contender::Trials trials(const Entry& entry, std::uint32_t layer);

  /// See policy::Look; empty where no policy wants them. @pre entry.mutex() is held
  std::vector<float> plane_ranges(const Entry& entry) const;

  /// Fills `dry_run`.
  void fill(telemetry::Report& report) const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  enum class Phase : std::uint8_t { before, plain, learning, measuring, done };

  bool is_over() const { return phase_ == Phase::done; }
  void begin_step();

  mutable std::mutex mutex_;
  BufferPool buffers_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  std::unordered_map<const void*, std::size_t> parameters_;
  std::uint64_t growth_ = 0;
  std::uint64_t plain_rss_bytes_ = 0;  // peak of the first step
  std::uint64_t rss_at_start_ = 0;     // peak before it
  Phase phase_ = Phase::before;
  bool done_taken_ = false;
  bool derives_ = false;
};

}  // namespace cinch::hooks
