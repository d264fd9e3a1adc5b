// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "codecs/codec.h"
#include "codecs/cuda/codec.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "policy/adapting/director.h"
#include "policy/deciding/caution.h"
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
    std::size_t bound = 0;  ///< upper bound of the encoded size
    bool approximates = false;
    bool sized_by_data = false;  ///< see codecs::CodecTraits; `bound` may be more than raw
    codecs::Holds holds = codecs::Holds::floats;
    OpTotals* totals = nullptr;
    double mixed_bits = 0;  ///< see policy::Choice
    int group = 0;          ///< elements that share a range; 0: not in groups
    bool tried = false;     ///< chosen by trials of its effect on gradients
    /// Owns the memory of `what.channel_bound`.
    std::shared_ptr<const std::vector<float>> channel_bounds = nullptr;
    bool by_sides = false;  ///< the codec two_sided: for entries that have sides

    /// Whether it copies the bytes: used where a rule asks, though no smaller.
    bool is_copy() const noexcept { return holds == codecs::Holds::anything; }
  };
  policy::Decision::Action action = policy::Decision::Action::keep;
  policy::Decision::Offload offload = policy::Decision::Offload::never;
  std::string_view reason;
  std::vector<Candidate> candidates;
  std::vector<codecs::Reads> reads;  ///< of each use that counts for the policy
  /// No node reads values, but entries are computed from them.
  bool only_recipes_read_values = false;
  /// The report's row for entries that are derived; null where they are stored.
  OpTotals* derived = nullptr;
  std::optional<Candidate> mask;  ///< encodes the signs of a derived entry, if they are read
  OpTotals* kept = nullptr;
  OpTotals* dropped = nullptr;
  std::size_t device_bytes = 0;  ///< what encoding allocates on a device
  /// Expected stored size: the first candidate's upper bound, or, where the size depends on the
  /// data, that of the last such entry.
  std::size_t stored_bytes = 0;
  bool on_device = false;           ///< for entries on CUDA devices
  std::size_t least_offloaded = 0;  ///< entries held in fewer bytes stay on their device
  bool sized = false;               ///< stored_bytes was measured on an entry

  /// The part of stored_bytes that will be moved from the entry's device to the host.
  std::size_t offloaded_bytes() const noexcept {
    const bool leaves = on_device && derived == nullptr &&
                        offload == policy::Decision::Offload::always &&
                        stored_bytes >= least_offloaded;
    return leaves ? stored_bytes : 0;
  }

  /// Whether backward can read values of an entry, whichever candidate encodes it.
  bool keeps_values() const;

  /// Whether any candidate approximates.
  bool approximates() const;

  /// Whether values of entries may be computed from approximations.
  bool may_be_approximated() const { return approximates() || only_recipes_read_values; }

  /// What `encode(index)` returns for the first candidate that it returns something for: those by
  /// sides come first. Empty: for none.
  template <typename Encode>
  auto first_that_serves(const Encode& encode) const {
    for (const bool by_sides : {true, false}) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (candidates[i].by_sides != by_sides) continue;
        if (auto done = encode(i)) return done;
      }
    }
    return decltype(encode(0))();
  }

  /// Whether there is a candidate to try; else entries are kept or dropped.
  bool encodes() const noexcept {
    return action == policy::Decision::Action::encode && !candidates.empty();
  }
};

/// The candidate that encoded `entry`, or its mask. @pre it is encoded, or derived with a mask
inline const Plan::Candidate& held_by(const Entry& entry) {
  const Plan& plan = entry.plan();
  return entry.state == Entry::State::derived ? *plan.mask : plan.candidates[entry.candidate];
}

/// The report's row for how `entry` is held. @pre it is encoded or derived
inline OpTotals& totals_of(const Entry& entry) {
  return entry.state == Entry::State::derived ? *entry.plan().derived : *held_by(entry).totals;
}

/// Entries of one description. Training saves them again in every step. Members are told apart by
/// their place among those of a forward: the guard's classes of (op, shape, position).
struct EntryClass {
  struct Member {
    std::uint8_t caution = 0;   ///< how often the guard found it too far off
    std::uint32_t checked = 0;  ///< the guard's round that looked at it last
    EntryRow* row = nullptr;    ///< of the report
    /// A plan, and its copy with the measured size of its entries.
    std::shared_ptr<const Plan> unsized = nullptr;
    std::shared_ptr<const Plan> sized = nullptr;
    /// The entry that backward read last, if the host did not know its encoded size then.
    struct Unsized {
      std::shared_ptr<const EncodeOutcome> outcome;
      std::shared_ptr<const Plan> plan;
      std::size_t raw_bytes = 0;
      bool is_choice = false;  ///< encoded by the plan's first candidate
    };
    std::optional<Unsized> awaited = std::nullopt;
    // Under an adaptive policy.
    bool described = false;                  ///< the director was asked for `layer`
    std::uint32_t layer = policy::no_layer;  ///< the director's number
    std::uint32_t version = 0;               ///< of the choice that `plan` carries out
    std::uint8_t plan_caution = 0;
    std::shared_ptr<const Plan> plan = nullptr;
    const OpTotals* chosen = nullptr;  ///< what held its last entry, and the bytes planned for that
    std::size_t chosen_bytes = 0;
  };
  std::array<std::shared_ptr<const Plan>, policy::most_caution + 1> plans;
  /// The plans by which a rescue may encode entries in fewer bits; null where it may not.
  std::array<std::shared_ptr<const Plan>, policy::most_caution + 1> harder_plans;
  std::vector<Member> members;  ///< by place
  std::uint64_t growth = 0;     ///< the growth that `seen` counts
  std::uint32_t seen = 0;       ///< entries planned in it
};

}  // namespace cinch::hooks
