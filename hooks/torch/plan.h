// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "codecs/codec.h"
#include "hooks/torch/entry.h"
#include "hooks/torch/statistics.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// A policy's decision for entries of one description, ready to be carried out.
struct Plan {
  struct Candidate {
    std::shared_ptr<const codecs::Codec> codec;
    codecs::Description what;
    std::size_t bound = 0;  ///< bytes that encoding may need
    OpTotals* totals = nullptr;
  };
  policy::Decision::Action action = policy::Decision::Action::keep;
  std::string_view reason;
  std::vector<Candidate> candidates;
  std::vector<codecs::Reads> reads;  ///< per use
  OpTotals* kept = nullptr;
  OpTotals* dropped = nullptr;
};

/// Asks the policy once per description: training repeats the same few for ever. Not thread-safe:
/// the stash's lock guards it.
class Planner {
 public:
  Planner(const policy::Policy& policy, Statistics& statistics)
      : policy_(policy), statistics_(statistics) {}

  /// The plan for `entry`. @pre entry has uses
  std::shared_ptr<const Plan> plan_for(const Entry& entry);

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int64_t>& key) const noexcept;
  };
  std::shared_ptr<const Plan> make(const Entry& entry);

  const policy::Policy& policy_;
  Statistics& statistics_;
  std::vector<std::int64_t> key_;
  std::unordered_map<std::vector<std::int64_t>, std::shared_ptr<const Plan>, KeyHash> plans_;
};

}  // namespace cinch::hooks
