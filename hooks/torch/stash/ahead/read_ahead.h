// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hooks/torch/stash/ahead/read_order.h"
#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// Chooses entries to decode, or to fetch from the host's memory, before backward reads them: those
/// that it read next in the last step. A wrong guess costs time only.
///
/// The stash's lock is held, unless a comment says otherwise.
class ReadAhead {
 public:
  /// Entries to decode and to fetch, each held once (Entry::holders) for that.
  struct Choice {
    std::vector<std::pair<Entry*, codecs::Reads>> decodes;
    std::vector<Entry*> fetches;
  };

  /// Whether the current growth is recorded. Needs no lock.
  bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }

  /// A growth begins. @param decodes Whether there is a side stream to decode on
  /// @param first_id The id of the growth's first entry @param step The optimizer's step
  void begin_growth(bool decodes, std::uint32_t first_id, std::uint64_t step);

  /// Reserves memory for the next add(). @throws std::bad_alloc
  void make_room();

  /// Adds a new entry, which has the next id.
  void add(Entry& entry) noexcept;

  /// The entry is deleted.
  void remove(Entry& entry) noexcept;

  /// Backward reads `entry` for `use`. Adds the entries to read ahead now to `choice`, also if it
  /// throws: the next few, and about `most_bytes`. @param decodes Whether there is a side stream
  /// @param is_offloaded Whether anything is offloaded to the host's memory
  void read(Entry& entry, const Use& use, std::uint64_t most_bytes, bool decodes, bool is_offloaded,
            Choice& choice);

  /// `entry` was read, or won't be read ahead after all.
  void forget(Entry& entry) noexcept;

  /// There was no memory to read `entry` ahead: devices get no more read-ahead in this growth.
  void stop(const Entry& entry) noexcept { has_room_ = has_room_ && entry.device == nullptr; }

  /// An entry was moved to the host's memory: from the next growth on, entries may be fetched.
  void note_offload() noexcept { offloads_ = true; }

  /// A device has run out of memory: returns the entries that were read ahead there, each held
  /// once. If there are any, devices get no more read-ahead in this growth, and less is fetched
  /// ahead in the next ones.
  std::vector<Entry*> take_all(int device);

 private:
  static constexpr std::uint64_t unlimited = std::uint64_t{1} << 62;

  std::atomic<bool> on_{false};  // changes when a growth begins
  ReadOrder order_;
  std::vector<Entry*> entries_;  // of this growth, by position; null once deleted
  std::uint32_t first_id_ = 0;
  bool has_room_ = true;
  bool offloads_ = false;  // something was moved to the host so far
  std::uint64_t decoded_bytes_ = 0;
  std::uint64_t fetched_bytes_ = 0;
  std::uint64_t most_fetched_ = unlimited;  // limit of fetched_bytes_, learned from rescues
};

}  // namespace cinch::hooks
