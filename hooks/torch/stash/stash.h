// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/adapting/adaptation.h"
#include "hooks/torch/stash/adapting/appraisal.h"
#include "hooks/torch/stash/adapting/dry_run.h"
#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/ahead/read_ahead.h"
#include "hooks/torch/stash/ahead/side_work.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/entry/read_storages.h"
#include "hooks/torch/stash/entry_reader.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/device_holding.h"
#include "hooks/torch/stash/holding/exact_values.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/holding/host_holding.h"
#include "hooks/torch/stash/intake.h"
#include "hooks/torch/stash/lists/entry_lists.h"
#include "hooks/torch/stash/planning/magnified.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/rescue.h"
#include "hooks/torch/stash/saved/verdict.h"
#include "hooks/torch/stash/settler.h"

namespace cinch::hooks {

/// All that Cinch holds for backward: one entry per storage. Thread-safe. Never destroyed in a
/// training process: autograd graphs may outlive everything else.
///
/// The life of an entry: `save` finds or makes it, Intake plans it when nobody else owns the
/// storage, Settler has a Holding encode it, EntryReader decodes it for backward (docs/design.md).
class Stash final : private EntryKeeper {
 public:
  /// @param dry_run Policies to try out. If there are any, all entries are kept uncompressed.
  /// @param appraisal The steps in which the policy is appraised; nothing: it is not
  explicit Stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {},
                 const std::optional<AppraisalSteps>& appraisal = std::nullopt);
  Stash(const Stash&) = delete;
  Stash& operator=(const Stash&) = delete;

  /// The policy in force. The reference stays valid when the policy changes.
  const policy::Settings& settings() const noexcept { return policy_.settings(); }

  /// Whether the entry was taken from the program as `storage` (Derivation::takes_from_program),
  /// which still is as it was then. No lock is held.
  bool was_taken_as(const Entry& entry, const c10::Storage& storage) const;

  /// judge() under the policy in force, unless that is paused.
  Verdict judge(const at::Tensor& tensor, bool is_output, bool is_inplace_on_view) const noexcept;

  /// Whether the policy in force, or one that a dry run tries, derives values by recipes.
  bool derives() const noexcept {
    return settings().derive.enabled || (dry_run_ != nullptr && dry_run_->derives());
  }

  /// Adds one use of `tensor`'s storage. Then settles entries that only the stash owns by now and
  /// for which the window has no room. `use` must stay at its address until `release`.
  /// @param recipe How to compute the values from other entries. Taken if the storage is new, else
  ///   deleted, and its holds on sources given up.
  /// A recipe saves a copy of its own that way, with a RecipesUse.
  /// @throws std::exception when there is no memory; `use` was then not added
  Entry& save(const at::Tensor& tensor, Use& use, OfferedRecipe recipe = {});

  /// Adds one use of the entry from which a backward that builds a graph read `tensor`'s storage.
  /// @param version Of the tensor @return the entry; null if there is none
  Entry* save_again(const at::Tensor& tensor, Use& use, std::uint32_t version);

  /// An operand that backward only compares.
  using Compared = std::pair<const Entry*, Use*>;
  /// Notes that how these operands, which were just saved, compare is held elsewhere: backward
  /// reads no value of them. @return false, and nothing is noted, where an entry is planned already
  bool note_comparisons(std::span<const Compared> all);

  /// Notes nodes whose gradients magnify errors. What they read is held exactly from the next step
  /// on. @param nodes The lower halves of their numbers @throws std::bad_alloc
  void note_magnified(std::span<const std::uint32_t> nodes);

  /// Notes that a backward that builds a graph read `storage` through `use`. Does nothing unless
  /// these are all values of `entry`.
  void note_read(const c10::Storage& storage, Entry& entry, const Use& use, std::uint32_t version);

  /// The storage as `use` needs it: the original one while it is raw, else one decoded into a
  /// pooled buffer. Readers share a decoded storage while one of them holds it. Reader::program
  /// gets values, whatever the node reads, and always the same storage, since it may write to it.
  /// @throws std::exception when there is no memory; c10::Error when the program asks for values
  ///   that are not held
  c10::Storage restore(Entry& entry, const Use& use, Reader reader = Reader::node);

  /// Removes `use`. The last holder deletes the entry.
  void release(Entry& entry, Use& use) noexcept;

  /// Gives the host's memory that neither the stash nor the host's allocator uses at the moment to
  /// the operating system. Returns the bytes.
  std::size_t release_idle();

  /// Call in a forked child: restarts the figures, and marks the side thread as ended.
  void begin_in_child();

  // Parts for code outside of the stash. Each is thread-safe.
  const EntryLists& lists() const noexcept { return lists_; }
  PolicyInForce& policy() noexcept { return policy_; }
  Statistics& statistics() noexcept { return statistics_; }
  GuardLooks& looks() noexcept { return looks_; }
  Derivation& derivation() noexcept { return derivation_; }
  Rescue& rescue() noexcept { return rescue_; }
  ExactValues& exact() noexcept { return exact_values_; }
  const DeviceHolding& devices() const noexcept { return devices_; }
  SideWork& side() noexcept { return side_; }
  Adaptation& adaptation() noexcept { return adaptation_; }
  /// Null in ordinary runs.
  DryRun* dry_run() noexcept { return dry_run_.get(); }
  /// Null in ordinary runs.
  Appraisal* appraisal() noexcept { return appraisal_.get(); }

 private:
  // EntryKeeper
  void settle(Entry& entry, codecs::ParallelFor parallel_for, When when) noexcept override {
    settler_.settle(entry, parallel_for, when);
  }
  void decode_ahead(Entry& entry, codecs::Reads reads) noexcept override {
    reader_.decode_ahead(entry, reads);
  }
  void drop_holder(Entry& entry, Use* use) noexcept override;
  c10::Storage exact_values(Entry& entry) override {
    c10::Storage held = exact_values_.of(entry);
    return held ? held : reader_.computed(entry);
  }
  void free_later(c10::Storage storage) noexcept override {
    settler_.free_later(std::move(storage));
  }

  void learn_magnified(const Entry& entry, const Use& use) noexcept;
  void begin_growth();
  void begin_appraised_growth();
  void end_growth(const Entry& reading);
  void end_of_growth(const Entry& reading);
  void sample();
  void publish() noexcept;

  // Null in ordinary runs.
  const std::unique_ptr<Appraisal> appraisal_;
  const std::unique_ptr<DryRun> dry_run_;
  // Each part may call those above it. For the rest of the stash it has the interface EntryKeeper.
  EntryLists lists_;
  Statistics statistics_;
  /// Large buffers come from where the program's tensors do: forward needs there what backward
  /// frees here, and the reverse.
  BufferPool buffers_{allocator::take_host_block};
  Adaptation adaptation_;
  GuardLooks looks_;
  PolicyInForce policy_;
  ReadAhead read_ahead_;
  Magnified magnified_;
  Derivation derivation_;
  HostHolding host_;
  DeviceHolding devices_;
  const Holdings holdings_{host_, devices_};
  SideWork side_;
  Intake intake_;
  Settler settler_;
  EntryReader reader_;
  ReadStorages read_storages_;
  std::atomic<bool> grew_in_backward_{false};  ///< since the last release
  Rescue rescue_;
  ExactValues exact_values_;
};

/// Whether start_stash() was called.
bool has_stash() noexcept;

/// The process's stash. @pre has_stash()
Stash& stash() noexcept;

/// Creates the process's stash. An earlier one is never destroyed: its entries may still be held.
Stash& start_stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {},
                   const std::optional<AppraisalSteps>& appraisal = std::nullopt);

}  // namespace cinch::hooks
