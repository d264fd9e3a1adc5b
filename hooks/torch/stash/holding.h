// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/guard.h"
#include "hooks/torch/stash/plan.h"

namespace cinch::hooks {

/// How entries of one kind of memory are held and given back. The stash says when; nothing outside
/// of an implementation asks where a storage lies. Thread-safe; an entry belongs to its own lock
/// where nothing else is said.
class Holding {
 public:
  Holding() = default;
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  virtual ~Holding() = default;

  // To encode and to decode. entry.mutex() is held.

  /// Carries out the plan of a pending entry: encoded, dropped or derived, its storage is moved to
  /// `freed`, unless the guard keeps it. @return why it has to be kept, or nothing. What throws has
  /// changed nothing. @pre entry.is_solely_ours()
  virtual std::string_view encode(Entry& entry, c10::Storage& freed,
                                  codecs::ParallelFor parallel_for) = 0;

  /// What `reads` needs of an encoded, dropped or moved entry.
  /// @throws c10::Error when there is no memory
  virtual c10::Storage decode(Entry& entry, codecs::Reads reads) = 0;

  /// The same before backward asks for it, and not on the program's thread, or stream.
  virtual c10::Storage decode_ahead(Entry& entry, codecs::Reads reads) = 0;

  /// Has copied back what left the entry's memory, which backward is about to read; gives up one
  /// hold. No lock is held.
  virtual void fetch_ahead(Entry& /*entry*/) noexcept {}

  /// Makes what was decoded usable in the current stream's work.
  virtual void hand_over(Entry& /*entry*/, const c10::Storage& /*decoded*/,
                         codecs::Reads /*reads*/) {}

  /// A storage of the entry's size for who looks at its shape only.
  virtual c10::Storage without_values(const Entry& entry) = 0;

  /// What a graph that is being captured reads; nothing where none is. Takes the entry's lock.
  virtual c10::Storage restore_in_capture(Entry& /*entry*/, const Use& /*use*/) { return {}; }

  // To measure. entry.mutex() is held.

  /// How far decoded values of a watched entry are off; nothing where that can't be found out.
  virtual std::optional<ValueError> error_of(Entry& entry, const c10::Storage& decoded) = 0;

  /// policy::plane_ranges of what `candidate` would be given; may be empty. @pre entry.is_raw()
  virtual std::vector<float> plane_ranges(const Plan::Candidate& candidate, const Entry& entry) = 0;

  /// What exact values become when they are encoded and decoded.
  struct Trial {
    c10::Storage values;
    // Of host tensors, see policy::Look::Trial.
    double mean_square = -1;
    std::size_t bytes = 0;
  };
  /// @return nothing when there is no memory, or the codec can't hold them
  virtual std::optional<Trial> try_out(const Entry& entry, const c10::Storage& exact,
                                       const Plan::Candidate& candidate, codecs::RandomKey key) = 0;

  /// Tells the entry's class what it took. The stash's lock is held besides.
  virtual void note_size(Planner& planner, const Entry& entry) = 0;

  // An entry's way. The stash's lock is held.

  /// A use is about to be added, perhaps the first: `storage` is valid in the current stream's
  /// work.
  virtual void saved(Entry& /*entry*/, const c10::Storage& /*storage*/) {}
  virtual void planned(const Entry& /*entry*/) {}
  /// It was settled, and is wanted.
  virtual void settled(Entry& /*entry*/) {}
  /// It is in no queue of the holding's from now on. @return whether it was
  virtual bool leave_queue(Entry& /*entry*/) noexcept { return false; }
  /// Whether it may be freed in this process.
  virtual bool is_this_processes(const Entry& /*entry*/) const noexcept { return true; }

  // The same, without locks.

  /// Whether the side thread may encode and decode it.
  virtual bool is_for_side_thread() const noexcept = 0;
  /// The program saved it; what is ready will be settled next, and was then.
  virtual void before_settling(const Entry& /*entry*/) {}
  virtual void after_settling() {}
  /// Backward reads it: what became known meanwhile is taken note of.
  virtual void before_reading(const Entry& /*entry*/) {}
  /// It is encoded now if it waits for room.
  virtual void settle_if_put_off(Entry& /*entry*/) {}

  /// Room for a result whose size is not known beforehand.
  struct Room {
    std::size_t bytes = 0;  ///< that it takes until then; 0: none is needed
    bool taken = false;     ///< else there was none
  };
  /// Room to encode an entry that is settling.
  /// @return nothing when there is none: it is encoded later, and the hold on it was given up
  virtual std::optional<Room> room_for(Entry& /*entry*/, EntryKeeper::When /*when*/) {
    return Room{};
  }
  /// The plan was carried out, or it is kept. entry.mutex() is held
  virtual void carried_out(Entry& /*entry*/, const Room& /*room*/, bool /*kept*/) {}
  /// There was no memory: waits until others take less. @return whether they do
  virtual bool await_room(const Entry& /*entry*/, const Room& /*room*/) { return false; }

  // Memory has run out: of a device, or (Holding::host) of the host. No lock is held. Each returns
  // the bytes that it freed, and ends when they are about `bytes`.

  static constexpr int host = -1;
  /// Settles `ready` on this thread.
  virtual void settle_now(std::span<Entry* const> ready, int device, std::size_t bytes) = 0;
  /// What costs time only.
  virtual std::size_t give_up(int /*device*/, std::size_t /*bytes*/) { return 0; }
  virtual std::size_t encode_harder(int /*device*/, std::size_t /*bytes*/) { return 0; }
  virtual std::size_t move_out(int /*device*/, std::size_t /*bytes*/) { return 0; }
  /// Gives back what was held back for encoding, when nothing is left to encode.
  virtual std::size_t release_reserve(int /*device*/) { return 0; }

 protected:
  /// Finds the bits of each plane where they are mixed, and the ranges that say so where they are
  /// wanted, for `entry.planes`. @param always Whether to look at the ranges where only the bits
  /// are wanted; else all planes share alike
  void measure_planes(const Plan::Candidate& candidate, Entry& entry, bool always);

  /// A plan's "drop".
  static void drop(Entry& entry, c10::Storage& freed);
};

}  // namespace cinch::hooks
