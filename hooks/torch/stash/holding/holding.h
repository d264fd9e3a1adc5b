// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/adapting/guard.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/entry/source_errors.h"
#include "hooks/torch/stash/planning/planner.h"
#include "hooks/torch/stash/recipes/proofs.h"

namespace cinch::hooks {

/// Encodes, holds and decodes entries of one kind of memory: the host's, or CUDA devices'. The
/// stash decides when. Thread-safe.
class Holding {
 public:
  Holding() = default;
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  virtual ~Holding() = default;

  // Encoding and decoding. entry.mutex() is held, unless the comment says otherwise.

  /// Carries out the plan of a pending entry: encodes, drops or derives it. Moves its storage to
  /// `freed`, unless the guard keeps it. If it throws, the entry is unchanged.
  /// @return why the entry has to be kept, or nothing @pre entry.is_solely_ours()
  virtual std::string_view encode(Entry& entry, c10::Storage& freed,
                                  codecs::ParallelFor parallel_for) = 0;

  /// Decodes what `reads` needs of an encoded, dropped or moved entry.
  /// @throws c10::Error when there is no memory
  virtual c10::Storage decode(Entry& entry, codecs::Reads reads) = 0;

  /// Like decode(), before backward asks: off the program's thread (host) or stream (device).
  virtual c10::Storage decode_ahead(Entry& entry, codecs::Reads reads) = 0;

  /// Starts copying an offloaded entry back, since backward reads it soon. Gives up one hold. No
  /// lock is held.
  virtual void fetch_ahead(Entry& /*entry*/) noexcept {}

  /// Makes a decoded storage usable in the current stream's further work.
  virtual void hand_over(Entry& /*entry*/, const c10::Storage& /*decoded*/,
                         codecs::Reads /*reads*/) {}

  /// A storage of the entry's size for readers that look at its shape only.
  virtual c10::Storage without_values(const Entry& entry) = 0;

  /// The storage for a backward that is being captured in a CUDA graph; null outside of a capture.
  /// Takes the entry's lock.
  virtual c10::Storage restore_in_capture(Entry& /*entry*/, const Use& /*use*/) { return {}; }

  // Derived entries. No lock is held, unless the comment says otherwise.

  /// Encodes the mask of an entry that is derived, if it has one. entry.mutex() is held.
  /// @return whether the entry holds what it needs
  virtual bool encode_mask(Entry& entry, codecs::ParallelFor parallel_for) = 0;

  /// Makes `storage`, which holds the entry's values, usable in the current stream's further work.
  virtual void lend(const Entry& /*entry*/, const c10::Storage& /*storage*/) {}

  /// How the values err that decode() gives from now on. Takes the entry's lock.
  /// @throws c10::Error when there is no memory
  virtual SourceErrors errors_of(Entry& entry) = 0;

  /// Computes the values of a derived entry. May take its sources' locks.
  /// @param values First element of each source's values, usable in the current stream
  /// @param errors Of each source
  /// @param other See Recipe::compute()
  /// @throws c10::Error when there is no memory
  virtual c10::Storage compute(Entry& entry, std::span<const void* const> values,
                               std::span<const SourceErrors> errors, at::Tensor& other) = 0;

  /// The same, computed while its source is decoded; null where that can't be, or the source's
  /// values are decoded anyway. Takes the source's lock.
  /// @throws c10::Error when there is no memory
  virtual c10::Storage compute_in_one_pass(Entry& /*entry*/) { return {}; }

  /// What compute() gave is shared with later readers. entry.mutex() is held.
  virtual void computed(Entry& /*entry*/) {}

  /// Computes the recipe beside `actual` and compares them, bit by bit.
  /// @param values As for compute() @param near_serves Whether to look for nearness too
  /// @throws c10::Error when there is no memory
  virtual Proofs::Found compare(Recipe& recipe, std::span<const void* const> values,
                                const at::Tensor& actual, bool near_serves) = 0;

  /// Copies the recipe's constants, which the program may change, if they are not copies yet.
  virtual void own_constants(Recipe& /*recipe*/) {}

  // Measuring. entry.mutex() is held.

  /// The error of a watched entry's decoded values; nothing where it can't be measured.
  virtual std::optional<ValueError> error_of(Entry& entry, const c10::Storage& decoded) = 0;

  /// policy::plane_ranges of the values in `candidate`'s layout; may be empty. @pre entry.is_raw()
  virtual std::vector<float> plane_ranges(const Plan::Candidate& candidate, const Entry& entry) = 0;

  /// Encodes and decodes exact values.
  /// @return null when there is no memory, or the codec can't represent the values
  virtual c10::Storage try_out(const Entry& entry, const c10::Storage& exact,
                               const Plan::Candidate& candidate, codecs::RandomKey key) = 0;

  /// Tells the entry's class its encoded size. The stash's lock is held as well.
  virtual void note_size(Planner& planner, const Entry& entry) = 0;

  // Events in an entry's life. The stash's lock is held.

  /// A use is about to be added, perhaps the first. `storage` is valid in the current stream.
  virtual void saved(Entry& /*entry*/, const c10::Storage& /*storage*/) {}
  virtual void planned(const Entry& /*entry*/) {}
  /// The entry was settled and still has uses.
  virtual void settled(Entry& /*entry*/) {}
  /// Removes the entry from its queue. @return whether it was in one
  virtual bool leave_queue(Entry& /*entry*/) noexcept { return false; }
  /// Whether this process may free the entry; a forked child must not free a parent's.
  virtual bool is_this_processes(const Entry& /*entry*/) const noexcept { return true; }

  // More events. No lock is held, unless the comment says otherwise.

  /// Whether the side thread may encode and decode entries.
  virtual bool is_for_side_thread() const noexcept = 0;
  /// `entry` was saved, and ready entries are about to be settled; after_settling(): they were.
  virtual void before_settling(const Entry& /*entry*/) {}
  virtual void after_settling() {}
  /// Backward is about to read the entry: applies encoded sizes that became known meanwhile.
  virtual void before_reading(const Entry& /*entry*/) {}
  /// Settles the entry now if it was put off for lack of room.
  virtual void settle_if_put_off(Entry& /*entry*/) {}

  /// In-flight bytes reserved for an encoding whose size is not known beforehand.
  struct Room {
    std::size_t bytes = 0;  ///< needed until the size is known; 0: it is known beforehand
    bool taken = false;     ///< whether the bytes were reserved
  };
  /// Reserves room to encode an entry that is settling.
  /// @return nothing when there is none: the entry was put off, and one hold on it given up
  virtual std::optional<Room> room_for(Entry& /*entry*/, EntryKeeper::When /*when*/) {
    return Room{};
  }
  /// The plan was carried out, or the entry is kept. entry.mutex() is held.
  virtual void carried_out(Entry& /*entry*/, const Room& /*room*/, bool /*kept*/) {}
  /// There was no memory to encode: waits for other entries to shrink. @return whether any did
  virtual bool await_room(const Entry& /*entry*/, const Room& /*room*/) { return false; }

  // Rescues: a device, or (Holding::host) the host, has run out of memory. No lock is held. Each
  // function stops when about `bytes` are free, and returns the bytes that it freed.

  static constexpr int host = -1;
  /// Settles `ready` on this thread.
  virtual void settle_now(std::span<Entry* const> ready, int device, std::size_t bytes) = 0;
  /// Frees memory whose loss costs time only, and the guard's samples.
  virtual std::size_t give_up(int /*device*/, std::size_t /*bytes*/) { return 0; }
  virtual std::size_t encode_harder(int /*device*/, std::size_t /*bytes*/) { return 0; }
  virtual std::size_t move_out(int /*device*/, std::size_t /*bytes*/) { return 0; }
  /// Frees the reserve for encoding, when nothing is left to encode.
  virtual std::size_t release_reserve(int /*device*/) { return 0; }

 protected:
  /// Sets `entry.planes`: the planes' ranges if `entry.ranged`, and their bits if bits are mixed.
  /// @param always Whether to measure ranges for the bits alone; else all planes then get equal
  /// bits
  void measure_planes(const Plan::Candidate& candidate, Entry& entry, bool always);

  /// Carries out a plan's action "drop".
  static void drop(Entry& entry, c10::Storage& freed);
};

}  // namespace cinch::hooks
