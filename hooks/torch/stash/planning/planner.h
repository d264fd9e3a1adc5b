// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/planning/plan_maker.h"
#include "hooks/torch/stash/saved/words.h"
#include "policy/adapting/director.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// Asks the policy once per description. Not thread-safe: the stash's lock guards it.
class Planner {
 public:
  /// The most classes that are known at a time: a program whose shapes never repeat has new ones
  /// forever.
  static constexpr std::size_t most_classes = 4096;

  /// @param director Null where the policy never adapts.
  /// @param harder The policy that decides in a rescue; null where none is allowed.
  Planner(const policy::Policy& policy, policy::Director* director, Statistics& statistics,
          const policy::Policy* harder = nullptr)
      : policy_(policy),
        director_(director),
        statistics_(statistics),
        harder_(harder),
        goes_by_sizes_(policy.settings().raw_window > 0 ||
                       (director != nullptr && director->goes_by_sizes())),
        derives_(policy.settings().derive.enabled),
        maker_(statistics, director, derives_) {}

  /// Sets `entry`'s class, member, plan and row. @param growth Number of the stash's growth: places
  /// are counted anew in each. @pre entry has uses
  /// @throws std::exception when there is no memory; the entry then stays unplanned
  void plan(Entry& entry, std::uint64_t growth);

  /// Backward reads `entry`, whose encoded size is `bytes`: later entries of its class are expected
  /// to take as many. @pre entry is planned and encoded
  void note_size(const Entry& entry, std::size_t bytes);

  /// The same for an entry on a device whose size the host does not know yet. `outcome` is asked
  /// when the next entry of its class is planned. Where sizes decide anything, the host then waits
  /// for it: plans must depend on what was read, never on the device's speed.
  static void note_size(const Entry& entry, std::shared_ptr<const EncodeOutcome> outcome);

  /// The plan by which a rescue may hold `entry`, which is on a device, in clearly fewer bytes than
  /// now; null when there is none. What is encoded already is only encoded anew if all uses read
  /// values or nothing: decoded values may have lost signs. @pre entry is planned and settled
  static std::shared_ptr<const Plan> harder_plan(const Entry& entry);

  /// Device memory that encoding by that plan may allocate; 0 where it never happens. @pre planned
  static std::size_t harder_bytes(const Entry& entry);

  /// The plan for `entry` under another choice, for trials. @pre entry is planned, has uses
  std::shared_ptr<const Plan> plan_for(const Entry& entry, const policy::Choice& choice) {
    return maker_.make(policy_, entry, 0, &choice);
  }

 private:
  void forget_the_oldest();
  void plan_as_member(Entry& entry, EntryClass& of_kind);
  /// Tells the director the encoded size of an entry of `member` with this plan, unless the layer's
  /// choice has changed since.
  void tell_size(const EntryClass::Member& member, const std::shared_ptr<const Plan>& plan,
                 std::size_t bytes);
  const std::shared_ptr<const Plan>& chosen_plan(const Entry& entry, EntryClass::Member& member);
  void take_awaited(EntryClass::Member& member);

  const policy::Policy& policy_;
  policy::Director* director_;
  Statistics& statistics_;
  const policy::Policy* harder_;
  const bool goes_by_sizes_;
  const bool derives_;
  const PlanMaker maker_;
  Words key_;
  std::unordered_map<Words, std::shared_ptr<EntryClass>, HashOfWords> classes_;
};

}  // namespace cinch::hooks
