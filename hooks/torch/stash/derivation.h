// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/buffer_pool.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/guard_looks.h"
#include "hooks/torch/stash/proofs.h"
#include "hooks/torch/stash/recipe.h"

namespace cinch::hooks {

/// Entries that hold no values of their own: which may be computed from others, and the computing
/// (docs/derived.md). Thread-safe.
class Derivation {
 public:
  Derivation(EntryLists& lists, EntryKeeper& keeper, HostBuffers& buffers, GuardLooks& looks);
  Derivation(const Derivation&) = delete;
  Derivation& operator=(const Derivation&) = delete;

  /// Holds `entry` as one more use like `like`, for a recipe that is being made.
  /// @return how many recipes lie between its values and stored ones; nothing where those would
  ///   be held for the recipe's sake alone
  std::optional<std::uint8_t> hold_source(Recipe::Source& source, Entry& entry, const Use& like);
  /// Gives up what a recipe holds.
  void release_sources(Recipe& recipe) noexcept;

  /// Whether `recipe` is known to give the bits that `actual` has: compared for the first ones of
  /// its kind, and now and then. @param site Where it is saved
  bool proves(Recipe& recipe, const Site& site, const at::Tensor& actual);

  /// Whether an owned entry had better wait: a source is the program's, too, and might change.
  /// @pre the stash's lock is held
  bool awaits_source(const Entry& entry) const;

  /// Finds out whether the sources of an entry that is about to be settled have values for good.
  /// No lock is held.
  void look_at_sources(Entry& entry);

  /// Lets go of values that can be computed, but for a mask. What may not be approximated is only
  /// computed from exact values. @return whether it did
  /// @pre entry.mutex() is held and entry.is_solely_ours()
  bool let_go(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);

  /// The values of a derived entry. No lock is held.
  /// @param read Gives a source's @throws c10::Error when there is no memory
  c10::Storage compute(Entry& entry, const std::function<c10::Storage(Entry&, const Use&)>& read);

 private:
  EntryLists& lists_;
  EntryKeeper& keeper_;
  HostBuffers& buffers_;
  GuardLooks& looks_;
  Proofs proofs_;
};

}  // namespace cinch::hooks
