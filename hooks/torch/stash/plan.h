// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codecs/codec.h"
#include "codecs/cuda/codec.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_rows.h"
#include "hooks/torch/stash/statistics.h"
#include "policy/caution.h"
#include "policy/director.h"
#include "policy/policy.h"

namespace cinch::hooks {

class EncodeOutcome;

/// A policy's decision for entries of one description, ready to be carried out.
struct Plan {
  struct Candidate {
    std::shared_ptr<const codecs::Codec> codec;
    /// The same on the entry's device; null for entries in host memory.
    std::shared_ptr<const codecs::cuda::DeviceCodec> on_device;
    codecs::Description what;
    std::size_t bound = 0;  ///< bytes that encoding may need
    bool approximates = false;
    bool sized_by_data = false;  ///< see codecs::CodecTraits; `bound` may be more than raw
    bool is_copy = false;        ///< no smaller, and made where a rule asks for it
    OpTotals* totals = nullptr;
    double mixed_bits = 0;  ///< see policy::Choice
    int group = 0;          ///< elements that share a range; 0: not in groups
    bool tried = false;     ///< chosen for what trials say it does to gradients
    /// What `what.channel_bound` points into.
    std::shared_ptr<const std::vector<float>> channel_bounds = nullptr;
  };
  policy::Decision::Action action = policy::Decision::Action::keep;
  policy::Decision::Offload offload = policy::Decision::Offload::never;
  std::string_view reason;
  std::vector<Candidate> candidates;
  std::vector<codecs::Reads> reads;  ///< per use
  /// The report's row for entries that are derived; null where they are stored.
  OpTotals* derived = nullptr;
  std::optional<Candidate> mask;  ///< what is held of a derived one whose signs are read
  OpTotals* kept = nullptr;
  OpTotals* dropped = nullptr;
  std::size_t device_bytes = 0;  ///< what encoding allocates on a device
  /// What an entry is expected to need: the first candidate's bound, or what the last one needed
  /// where that depends on the data.
  std::size_t stored_bytes = 0;
  bool on_device = false;           ///< for entries on CUDA devices
  std::size_t least_offloaded = 0;  ///< what is held in fewer bytes stays on its device
  bool sized = false;               ///< the latter, or what an adaptive policy's trial needed

  /// Of stored_bytes, what will be moved from the entry's device to the host.
  std::size_t offloaded_bytes() const noexcept {
    const bool leaves = on_device && offload == policy::Decision::Offload::always &&
                        stored_bytes >= least_offloaded;
    return leaves ? stored_bytes : 0;
  }

  /// Whether backward could read values of everything that it may make of an entry.
  bool keeps_values() const;

  /// Whether it may make an approximation of one.
  bool approximates() const;

  /// Whether what is derived may follow from approximations: only where what is stored of it would
  /// be one. @pre derived is set
  bool may_approximate_derived() const { return candidates.front().approximates; }

  /// Whether there is anything to try but to keep or to drop.
  bool encodes() const noexcept {
    return action == policy::Decision::Action::encode && !candidates.empty();
  }
};

/// Whose bytes `entry` is held in. @pre it is encoded, or derived and there is a mask
inline const Plan::Candidate& held_by(const Entry& entry) {
  const Plan& plan = entry.plan();
  return entry.state == Entry::State::derived ? *plan.mask : plan.candidates[entry.candidate];
}

/// The report's row for how `entry` is held. @pre it is encoded or derived
inline OpTotals& totals_of(const Entry& entry) {
  return entry.state == Entry::State::derived ? *entry.plan().derived : *held_by(entry).totals;
}

/// Entries of one description, which training repeats for ever, told apart by their place among
/// those that a forward saves: the guard's classes of (op, shape, position).
struct EntryClass {
  struct Member {
    std::uint8_t caution = 0;   ///< how often the guard found it too far off
    std::uint32_t checked = 0;  ///< the guard's round that looked at it last
    EntryRow* row = nullptr;    ///< of the report
    /// A plan, and the same one with what its entries need.
    std::shared_ptr<const Plan> unsized = nullptr;
    std::shared_ptr<const Plan> sized = nullptr;
    /// What backward read last, before the host knew what encoding it had come to.
    struct Unsized {
      std::shared_ptr<const EncodeOutcome> outcome;
      std::shared_ptr<const Plan> plan;
      std::size_t raw_bytes = 0;
      bool is_choice = false;  ///< held by the plan's first candidate
    };
    std::optional<Unsized> awaited = std::nullopt;
    // Under an adaptive policy.
    bool described = false;
    std::uint32_t layer = policy::no_layer;  ///< the director's number
    std::uint32_t version = 0;               ///< of the choice that `plan` carries out
    std::uint8_t plan_caution = 0;
    std::shared_ptr<const Plan> plan = nullptr;
  };
  std::array<std::shared_ptr<const Plan>, policy::most_caution + 1> plans;
  /// What a rescue may make of them; null where it may make nothing of them.
  std::array<std::shared_ptr<const Plan>, policy::most_caution + 1> harder_plans;
  std::vector<Member> members;  ///< by place
  std::uint64_t growth = 0;     ///< the growth of the stash that counted `seen`
  std::uint32_t seen = 0;
};

/// Asks the policy once per description. Not thread-safe: the stash's lock guards it.
class Planner {
 public:
  /// @param director Null where the policy never adapts.
  /// @param harder What decides in a rescue; null where the policy allows none.
  Planner(const policy::Policy& policy, policy::Director* director, Statistics& statistics,
          const policy::Policy* harder = nullptr)
      : policy_(policy),
        director_(director),
        statistics_(statistics),
        harder_(harder),
        goes_by_sizes_(policy.settings().raw_window > 0 ||
                       (director != nullptr && director->goes_by_sizes())),
        derives_(policy.settings().derive.enabled) {}

  /// Sets `entry`'s class, member, plan and row. @param growth Number of the stash's growth: places
  /// are counted anew in each. @pre entry has uses
  /// @throws std::exception when there is no memory: the entry is as unplanned as it was
  void plan(Entry& entry, std::uint64_t growth);

  /// Backward reads `entry`, which took so many bytes: the next ones of its class are expected to
  /// take as many. @pre entry is planned and encoded
  void note_size(const Entry& entry, std::size_t bytes);

  /// The same of one on a device, which took what `outcome` will tell: the next one of its class is
  /// planned with that. So what is planned depends on what was read, never on how fast a device is:
  /// where sizes decide anything, the host waits for one that isn't known by then.
  static void note_size(const Entry& entry, std::shared_ptr<const EncodeOutcome> outcome);

  /// How a rescue may hold `entry`, which is on a device, in clearly fewer bytes than it takes now,
  /// and without an approximation where exact values are held for the sake of something else than
  /// values; null when there is no such way. @pre entry is planned and settled
  static std::shared_ptr<const Plan> harder_plan(const Entry& entry);

  /// What encoding it so would allocate on its device; 0 where that is never done. @pre planned
  static std::size_t harder_bytes(const Entry& entry);

  /// How `entry` would be held by another choice, for trials. @pre entry is planned, has uses
  std::shared_ptr<const Plan> plan_for(const Entry& entry, const policy::Choice& choice) {
    return make(policy_, entry, 0, &choice);
  }

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int64_t>& key) const noexcept;
  };
  void derive(Plan& plan, const Entry& entry, const SiteNames& row);
  void plan_as_member(Entry& entry, EntryClass& of_kind);
  std::shared_ptr<Plan> make(const policy::Policy& policy, const Entry& entry, int caution,
                             const policy::Choice* choice);
  /// What an entry of `member`, held by `plan`, took is news for the director if that is still the
  /// layer's choice.
  void tell_size(const EntryClass::Member& member, const std::shared_ptr<const Plan>& plan,
                 std::size_t bytes);
  const std::shared_ptr<const Plan>& chosen_plan(const Entry& entry, EntryClass::Member& member);
  void take_awaited(EntryClass::Member& member);
  void add_candidate(Plan& plan, const Entry& entry, const policy::Decision::Candidate& candidate,
                     const SiteNames& row, bool chosen);

  const policy::Policy& policy_;
  policy::Director* director_;
  Statistics& statistics_;
  const policy::Policy* harder_;
  const bool goes_by_sizes_;
  // Else uses that recipes made, for another policy that is tried, don't count.
  const bool derives_;
  std::vector<std::int64_t> key_;
  std::unordered_map<std::vector<std::int64_t>, std::shared_ptr<EntryClass>, KeyHash> classes_;
};

}  // namespace cinch::hooks
