// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "policy/adapting/director.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// Turns a policy's decision about an entry into a plan: codecs that accept the entry, their
/// bounds, and rows of the report.
class PlanMaker {
 public:
  /// @param director Null where the policy never adapts @param derives See counts()
  PlanMaker(Statistics& statistics, const policy::Director* director, bool derives)
      : statistics_(statistics), director_(director), derives_(derives) {}

  /// @param choice An adaptive policy's; null: none @pre entry has uses
  std::shared_ptr<const Plan> make(const policy::Policy& policy, const Entry& entry, int caution,
                                   const policy::Choice* choice) const;

 private:
  void derive(Plan& plan, const Entry& entry, const SiteNames& row) const;
  void add_by_sides(Plan& plan, const Entry& entry, const policy::Decision::Candidate& candidate,
                    const SiteNames& row) const;
  void add_candidate(Plan& plan, const Entry& entry, const policy::Decision::Candidate& candidate,
                     const SiteNames& row, bool chosen) const;

  Statistics& statistics_;
  const policy::Director* director_;
  const bool derives_;
};

}  // namespace cinch::hooks
