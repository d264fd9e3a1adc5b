// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/read_order.h"

namespace cinch::hooks {

/// Chooses what is decoded, and fetched from the host's memory, before backward reads it: what it
/// read next in the last step. A wrong guess costs time only.
///
/// The stash's lock is held wherever nothing else is said.
class ReadAhead {
 public:
  /// What is to be read, each held once (Entry::holders) for whoever does it.
  struct Choice {
    std::vector<std::pair<Entry*, codecs::Reads>> decodes;
    std::vector<Entry*> fetches;
  };

  /// Whether anything is noted of the growth under way. Needs no lock.
  bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }

  /// The stash begins to grow, with an entry of this number. @param step The optimizer's
  /// @param decodes Whether there is a side stream to decode on
  void begin_growth(bool decodes, std::uint32_t first_id, std::uint64_t step);

  /// Makes the next add() one that cannot throw. @throws std::bad_alloc
  void make_room();

  /// A new entry, with the next number.
  void add(Entry& entry) noexcept;

  /// The entry goes.
  void remove(Entry& entry) noexcept;

  /// Backward reads `entry` as `use` does. Adds to `choice`, whether it throws or not, what to read
  /// now: a few entries far, and about `most_bytes`.
  /// @param decodes Whether there is a side stream to decode on @param is_offloaded Whether
  /// anything is in the host's memory
  void read(Entry& entry, const Use& use, std::uint64_t most_bytes, bool decodes, bool is_offloaded,
            Choice& choice);

  /// `entry` was read, or is not read ahead after all.
  void forget(Entry& entry) noexcept;

  /// There was no memory to read `entry` ahead: its device has no room for that in this growth.
  void stop(const Entry& entry) noexcept { has_room_ = has_room_ && entry.device == nullptr; }

  /// An entry was moved to the host's memory, from where it has to be fetched.
  void note_offload() noexcept { offloads_ = true; }

  /// What was read ahead on a device, each held once: memory has run out there. Nothing more is
  /// read ahead there in this growth, and less is fetched ahead in the next ones.
  std::vector<Entry*> take_all(int device);

 private:
  static constexpr std::uint64_t unlimited = std::uint64_t{1} << 62;

  std::atomic<bool> on_{false};  // changes when a growth begins
  ReadOrder order_;
  std::vector<Entry*> entries_;  // of this growth, by position; null once released
  std::uint32_t first_id_ = 0;
  bool has_room_ = true;
  bool offloads_ = false;  // something was moved so far
  std::uint64_t decoded_bytes_ = 0;
  std::uint64_t fetched_bytes_ = 0;
  std::uint64_t most_fetched_ = unlimited;  // as rescues have shown
};

}  // namespace cinch::hooks
