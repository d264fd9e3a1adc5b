// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/telemetry/report.h"
#include "codecs/codec.h"
#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/adapting/simulated_growth.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/planning/planner.h"
#include "hooks/torch/stash/recipes/layers_of_sources.h"
#include "policy/adapting/director.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// One of the policies that a dry run tries: its plans for the program's entries, what these would
/// take, and how far off they are. Not thread-safe: the dry run's lock guards it.
class Contender {
 public:
  /// Each policy has so many indices in Look::trials.
  static constexpr std::uint32_t most_trials = 64;

  explicit Contender(policy::Settings settings);
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  bool adapts() const noexcept { return director_ != nullptr; }
  /// What the policy wants to be shown; nothing if it does not adapt.
  policy::Wants wants() const;

  /// Ends the growth so far.
  void end_growth();
  /// A step begins. @param learns Whether the policy is shown looks in it
  void begin_step(bool learns);
  /// Adds bytes of entries that are read before they are encoded. The budget policy takes them for
  /// overhead, since they are not in the planned bytes.
  void add_not_settled(std::size_t bytes);

  /// Plans a new entry. @param layer The stash's number for its layer @param growth The growth's
  /// number @param measures Whether the entry will be measured
  /// @return whether to run trials of nodes that read it
  bool add(const Entry& entry, std::uint32_t layer, std::uint64_t growth, bool measures);
  void forget(const Entry& entry) { entries_.erase(&entry); }
  /// Whether the policy would derive the entry, as measure() found.
  bool has_derived(const Entry& entry) const;

  /// Counts the entry in the growth. @param encodes Whether to encode and decode it for that, or to
  /// make its mask; else its plan tells what it takes @pre entry.mutex() is held, the entry is raw
  void measure(const Entry& entry, bool encodes, BufferPool& buffers,
               codecs::ParallelFor parallel_for);

  /// Shows a policy that adapts a look. Its own trials begin at index `first_trial`.
  void learn(std::uint32_t layer, const policy::Look& look, std::size_t first_trial);
  /// Counts the gradients' errors that a trial of the entry's plan found.
  void note_trial(const Entry& entry, const policy::Look::Trial& trial);

  /// The plans to try on nodes that read the entry, with their indices.
  using Trials = std::vector<std::pair<std::uint32_t, std::shared_ptr<const Plan>>>;
  Trials trials(const Entry& entry, std::uint32_t layer, bool measures);

  /// See policy::Look; empty unless the policy wants them. @pre the entry is raw, on the host
  std::vector<float> plane_ranges(const Entry& entry) const;

  /// Fills all but `measured` if anything was measured, and sets that. @param measures Whether a
  /// step that measures has begun
  void fill(telemetry::Report::DryRun& row, bool measures) const;

 private:
  /// The plan for an entry, and the row of the report that counts it.
  struct Held {
    std::shared_ptr<const Plan> plan;        ///< null: left to PyTorch
    OpTotals* row = nullptr;                 ///< null until measured
    bool derived = false;                    ///< it would be derived
    bool approximates = false;               ///< from approximated sources
    bool by_sides = false;                   ///< it would be encoded with its sides
    std::uint32_t layer = policy::no_layer;  ///< the director's number
  };

  std::uint32_t layer_of(std::uint32_t of_stash) const {
    return of_stash < layers_.size() ? layers_[of_stash] : policy::no_layer;
  }
  const Held* held(const Entry& entry) const;
  SourceLayer source_layer(const Entry& entry) const;
  std::shared_ptr<const Plan> plan(const Entry& entry, std::uint32_t layer, std::uint64_t growth);
  std::size_t encode(Held& held, const Entry& entry, BufferPool& buffers,
                     codecs::ParallelFor parallel_for);
  std::optional<std::size_t> encode_by(const Plan::Candidate& candidate, Held& held,
                                       const Entry& entry, BufferPool& buffers,
                                       codecs::ParallelFor parallel_for);
  bool would_derive(Held& held, const Entry& entry) const;
  bool has_signs_in_source(const Recipe& recipe) const;
  std::optional<std::size_t> derive(Held& held, const Entry& entry, BufferPool& buffers,
                                    codecs::ParallelFor parallel_for);

  policy::Policy policy_;
  std::unique_ptr<policy::Director> director_;
  Statistics statistics_;
  Planner planner_;
  std::unordered_map<const Entry*, Held> entries_;
  std::vector<std::uint32_t> layers_;  ///< the director's numbers, by the stash's
  SimulatedGrowth growing_;            ///< the current growth
  SimulatedGrowth largest_;            ///< of the step
  std::string message_;                ///< the director's
};

}  // namespace cinch::hooks
