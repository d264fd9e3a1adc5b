// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/adapting/gradient_probe.h"
#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/read_ahead.h"
#include "hooks/torch/stash/ahead/side_work.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// Who reads a saved tensor: the node that saved it, or the program's own code (through
/// grad_fn._saved_…, in an autograd.Function's backward, in its hooks).
enum class Reader : std::uint8_t { node, program };

/// Whether `entry` still holds `storage` itself, raw. No lock is held.
bool holds_raw(const Entry& entry, const c10::Storage& storage);

/// Gives backward the storages that it reads: the original while the entry is raw, else a decoded
/// or computed one. Readers share a decoded storage while one of them holds it. Thread-safe; no
/// lock is held.
class EntryReader {
 public:
  EntryReader(EntryLists& lists, PolicyInForce& policy, EntryKeeper& keeper, Derivation& derivation,
              GuardLooks& looks, ReadAhead& read_ahead, const Holdings& holdings, SideWork& side)
      : lists_(lists),
        policy_(policy),
        keeper_(keeper),
        derivation_(derivation),
        looks_(looks),
        read_ahead_(read_ahead),
        holdings_(holdings),
        side_(side) {}
  EntryReader(const EntryReader&) = delete;
  EntryReader& operator=(const EntryReader&) = delete;

  /// The storage as `use` needs it. @param probe The measurement that asks; null: backward
  /// @throws as Stash::restore
  c10::Storage read(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);

  /// Whether `storage` is the one that readers of all values of `entry` share.
  bool gave(const Entry& entry, const c10::Storage& storage) const;

  /// The values of an entry derived from exact sources; else null. @throws as Stash::restore
  c10::Storage computed(Entry& entry);

  /// Starts decoding and fetching the entries that backward read after `use` in the last step.
  void foresee(Entry& entry, const Use& use) noexcept;

  /// See EntryKeeper.
  void decode_ahead(Entry& entry, codecs::Reads reads) noexcept;

 private:
  c10::Storage read_held(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);
  c10::Storage compute(Entry& entry, const Use& use, GradientProbe* probe);
  c10::Storage read_followed(Entry& entry, const Use& use, GradientProbe* probe);
  c10::Storage read_derived(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);
  c10::Storage read_signs_of_source(Entry& entry, const Use& use, GradientProbe* probe);
  c10::Storage decoded(Entry& entry, codecs::Reads reads, Reader reader);
  c10::Storage for_probe(GradientProbe& probe, Entry& entry, const Use& use);
  static bool reads_part(const GradientProbe* probe, const Entry& entry, const Use& use) noexcept;
  static c10::Storage with_part(GradientProbe& probe, const Entry& entry, c10::Storage values);
  bool note_read(GradientProbe& probe, Entry& entry, const Use& use) const;
  void keep_decoded(Entry& entry, codecs::Reads reads, Reader reader, const c10::Storage& storage);
  void keep_if_read_soon(Entry& source, const Use& by, const c10::Storage& values);
  template <typename IsMeant>
  bool has_reader(const Entry& entry, const IsMeant& is_meant) const;
  void note_size(Entry& entry);
  void decode_if_wanted(Entry& entry, codecs::Reads reads);

  EntryLists& lists_;
  PolicyInForce& policy_;
  EntryKeeper& keeper_;
  Derivation& derivation_;
  GuardLooks& looks_;
  ReadAhead& read_ahead_;
  const Holdings& holdings_;
  SideWork& side_;
};

}  // namespace cinch::hooks
