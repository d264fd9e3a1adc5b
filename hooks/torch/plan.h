// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "codecs/codec.h"
#include "codecs/cuda/codec.h"
#include "hooks/torch/entry.h"
#include "hooks/torch/statistics.h"
#include "policy/caution.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// A policy's decision for entries of one description, ready to be carried out.
struct Plan {
  struct Candidate {
    std::shared_ptr<const codecs::Codec> codec;
    /// The same on the entry's device; null for entries in host memory.
    std::shared_ptr<const codecs::cuda::DeviceCodec> on_device;
    codecs::Description what;
    std::size_t bound = 0;  ///< bytes that encoding may need
    bool approximates = false;
    OpTotals* totals = nullptr;
  };
  policy::Decision::Action action = policy::Decision::Action::keep;
  std::string_view reason;
  std::vector<Candidate> candidates;
  std::vector<codecs::Reads> reads;  ///< per use
  OpTotals* kept = nullptr;
  OpTotals* dropped = nullptr;
  std::size_t device_bytes = 0;  ///< what encoding allocates on a device
  std::size_t stored_bytes = 0;  ///< what an entry is expected to need: the first candidate's bound

  /// Whether there is anything to try but to keep or to drop.
  bool encodes() const noexcept {
    return action == policy::Decision::Action::encode && !candidates.empty();
  }
};

/// Entries of one description, which training repeats for ever, told apart by their place among
/// those that a forward saves: the guard's classes of (op, shape, position).
struct EntryClass {
  struct Member {
    std::uint8_t caution = 0;   ///< how often the guard found it too far off
    std::uint32_t checked = 0;  ///< the guard's round that looked at it last
  };
  std::array<std::unique_ptr<const Plan>, policy::most_caution + 1> plans;
  std::vector<Member> members;  ///< by place
  std::uint64_t growth = 0;     ///< the growth of the stash that counted `seen`
  std::uint32_t seen = 0;
};

inline const Plan& Entry::plan() const noexcept {
  return *entry_class->plans[caution];
}

/// Asks the policy once per description. Not thread-safe: the stash's lock guards it.
class Planner {
 public:
  Planner(const policy::Policy& policy, Statistics& statistics)
      : policy_(policy), statistics_(statistics) {}

  /// Sets `entry`'s class, member and plan. @param growth Number of the stash's growth: places are
  /// counted anew in each. @pre entry has uses
  void plan(Entry& entry, std::uint64_t growth);

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int64_t>& key) const noexcept;
  };
  std::unique_ptr<const Plan> make(const Entry& entry, int caution);
  void add_candidate(Plan& plan, const Entry& entry, const policy::Decision::Candidate& candidate,
                     const SiteNames& row);

  const policy::Policy& policy_;
  Statistics& statistics_;
  std::vector<std::int64_t> key_;
  std::unordered_map<std::vector<std::int64_t>, std::shared_ptr<EntryClass>, KeyHash> classes_;
};

}  // namespace cinch::hooks
