// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/entry.h"

namespace cinch::hooks {

/// What the parts of the stash ask of the whole. None of its locks is held.
class EntryKeeper {
 public:
  /// Whether what has no room for a result of unknown size may wait for some.
  enum class When : std::uint8_t { room, now };

  /// Carries out the plan of an entry that is settling, and gives up one hold on it. What there is
  /// no memory to encode is kept.
  virtual void settle(Entry& entry, codecs::ParallelFor parallel_for, When when) noexcept = 0;

  /// Decodes ahead of backward what `reads` needs, if it is still wanted, and gives up one hold.
  virtual void decode_ahead(Entry& entry, codecs::Reads reads) noexcept = 0;

  /// Gives up one hold on `entry` (Entry::holders), and `use` with it unless that is null. The
  /// entry goes with its last holder.
  virtual void drop_holder(Entry& entry, Use* use = nullptr) noexcept = 0;

  /// The entry's values, if the stash has them as they were saved: raw, exactly encoded or
  /// computed from what is.
  virtual c10::Storage exact_values(Entry& entry) = 0;

  /// Drops a storage that the stash gave up, on a thread that may wait for the interpreter.
  virtual void free_later(c10::Storage storage) noexcept = 0;

 protected:
  ~EntryKeeper() = default;
};

}  // namespace cinch::hooks
