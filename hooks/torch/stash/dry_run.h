// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/telemetry/report.h"
#include "codecs/codec.h"
#include "hooks/torch/stash/buffer_pool.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/plan.h"
#include "hooks/torch/stash/statistics.h"
#include "policy/director.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// Finds out what each of several policies would hold of a program's activations, while the program
/// trains uncompressed. The first step shows what the program needs by itself; where policies
/// adapt, the next one shows them what training does; in the last one every entry is encoded and
/// decoded as each policy would have it, and each node of backward is run on what it would be
/// given. Nothing of that reaches the program.
///
/// Thread-safe; its lock is taken after the stash's and after entries' locks. Entries on a device
/// are not encoded: their sizes are the plans', and their errors are not known.
class DryRun {
 public:
  explicit DryRun(std::vector<policy::Settings> policies);
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;
  ~DryRun();

  /// The stash begins to grow; `new_step`: in another step than before.
  void begin_growth(bool new_step);

  /// Whether all steps are over; true once.
  bool take_done();

  /// Backward begins: the first step's memory is at its peak.
  /// @param not_settled Bytes that the stash holds of entries that were not added
  void end_growth(std::size_t not_settled);

  /// A leaf that takes a gradient of so many bytes.
  void saw_parameter(const void* identity, std::size_t bytes);

  /// Whether a policy computes values instead of storing them.
  bool derives() const noexcept { return derives_; }

  /// Whether one of them would hold no values of `entry`, which it was asked to measure.
  bool has_derived(const Entry& entry) const;

  /// What the step under way shall find out.
  policy::Wants wants() const;

  /// A new entry; its exact values stay where they are. @param layer The stash's number for it
  /// @return whether nodes that read it shall be tried
  bool add(const Entry& entry, std::uint32_t layer);

  /// Encodes it as each policy would, or counts it as derived. @pre entry.mutex() is held, the
  /// entry was added and is raw
  void measure(const Entry& entry, codecs::ParallelFor parallel_for);

  /// The entry goes.
  void forget(const Entry& entry);

  /// A node of backward, as the policies that adapt see it; or, of trials, its results' errors.
  void observe(const Entry& entry, std::uint32_t layer, const policy::Look& look);

  /// How nodes that read `entry` shall be tried, and the numbers that Look::trials has them under.
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>> trials(const Entry& entry,
                                                                            std::uint32_t layer);

  /// See policy::Look; nothing where no policy wants to know it. @pre as for measure()
  std::vector<float> plane_ranges(const Entry& entry) const;

  /// Fills `dry_run`.
  void fill(telemetry::Report& report) const;

  /// For forks.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  enum class Phase : std::uint8_t { before, plain, learning, measuring, done };
  struct Contender;
  /// What a policy plans for an entry, and the row of the report that counts it.
  struct Held {
    std::shared_ptr<const Plan> plan;  ///< null: left to PyTorch
    OpTotals* row = nullptr;           ///< null until measured
    bool derived = false;              ///< not stored
    bool approximates = false;         ///< what its values would be computed from
  };

  bool is_over() const { return phase_ == Phase::done; }
  void begin_step();
  Held plan(Contender& contender, const Entry& entry, std::uint32_t layer);
  std::size_t encode(Held& held, const Entry& entry, codecs::ParallelFor parallel_for);
  bool would_derive(std::size_t contender, Held& held, const Entry& entry) const;
  std::optional<std::size_t> derive(Held& held, const Entry& entry,
                                    codecs::ParallelFor parallel_for);
  void learn(Contender& contender, std::size_t number, std::uint32_t layer,
             const policy::Look& look);

  mutable std::mutex mutex_;
  BufferPool buffers_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  std::unordered_map<const Entry*, std::vector<Held>> entries_;
  std::unordered_map<const void*, std::size_t> parameters_;
  std::uint64_t growth_ = 0;
  std::uint64_t plain_rss_bytes_ = 0;  // the most of the first step
  std::uint64_t rss_at_start_ = 0;     // the most before it
  Phase phase_ = Phase::before;
  bool done_taken_ = false;
  bool derives_ = false;
};

}  // namespace cinch::hooks
