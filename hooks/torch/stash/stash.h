// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/adaptation.h"
#include "hooks/torch/stash/buffer_pool.h"
#include "hooks/torch/stash/verdict.h"
#include "hooks/torch/stash/derivation.h"
#include "hooks/torch/stash/device/device_holding.h"
#include "hooks/torch/stash/dry_run.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/entry_reader.h"
#include "hooks/torch/stash/exact_values.h"
#include "hooks/torch/stash/guard_looks.h"
#include "hooks/torch/stash/holdings.h"
#include "hooks/torch/stash/host_holding.h"
#include "hooks/torch/stash/intake.h"
#include "hooks/torch/stash/policy_in_force.h"
#include "hooks/torch/stash/read_ahead.h"
#include "hooks/torch/stash/recipe.h"
#include "hooks/torch/stash/rescue.h"
#include "hooks/torch/stash/settler.h"
#include "hooks/torch/stash/side_work.h"
#include "hooks/torch/stash/statistics.h"

namespace cinch::hooks {

/// All that Cinch holds for backward: one entry per storage. Thread-safe. Never destroyed in a
/// training process: graphs may outlive everything.
///
/// An entry's way: `save` finds or makes it, Intake plans it when nobody else owns the storage,
/// Settler has a Holding encode it, EntryReader gives backward what it reads (docs/design.md).
class Stash final : private EntryKeeper {
 public:
  /// @param dry_run Policies that shall only be tried; not empty: all is kept as it is.
  explicit Stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {});
  Stash(const Stash&) = delete;
  Stash& operator=(const Stash&) = delete;

  /// The policy in force. What was returned stays valid.
  const policy::Settings& settings() const noexcept { return policy_.settings(); }

  /// judge() under the policy in force.
  Verdict judge(const at::Tensor& tensor, bool is_output, bool is_inplace_on_view) const noexcept;

  /// Whether recipes are wanted: the policy in force, or one that a dry run tries, uses them.
  bool derives() const noexcept {
    return settings().derive.enabled || (dry_run_ != nullptr && dry_run_->derives());
  }

  /// Adds one use of `tensor`'s storage; encodes what has become solely the stash's and found no
  /// room in the window. `use` stays where it is until `release`.
  /// @throws std::exception when there is no memory: the stash knows nothing of `use` then
  /// @param recipe How its values follow from others'; taken where the storage is new. Its holds on
  ///   sources are given up otherwise.
  Entry& save(const at::Tensor& tensor, Use& use, std::unique_ptr<Recipe> recipe = nullptr);

  /// The storage as `use` needs it: the original one while it is held raw, else one decoded into a
  /// pooled buffer, shared with whoever asked before and still holds it. The program gets values
  /// whatever the node reads, and always the same storage, which it may write to.
  /// @throws std::exception when there is no memory; c10::Error when the program asks for values
  ///   that are not held
  c10::Storage restore(Entry& entry, const Use& use, Reader reader = Reader::node);

  /// Whether `storage` is what the stash holds as it was saved.
  static bool is_storage_of(Entry& entry, const c10::StorageImpl* storage);

  /// Removes `use`; the entry goes with its last one.
  void release(Entry& entry, Use& use) noexcept;

  /// Puts `settings` in force as soon as nothing is held, when the stash next begins to grow at the
  /// latest: a step begins then. Where encoding runs stays as it is. Peaks count from then on.
  /// `done` is called once, then, under the stash's lock, with what there is to say; a change that
  /// still waits is given up without a word.
  void change_policy(policy::Settings settings, void (*done)(const std::string& words)) {
    policy_.change(std::move(settings), done);
  }

  /// While paused nothing is taken; what is held stays held.
  void pause(bool paused) noexcept { paused_.store(paused, std::memory_order_relaxed); }
  bool is_paused() const noexcept { return paused_.load(std::memory_order_relaxed); }

  /// Starts this process's own figures in a forked child, where no side thread is.
  void begin_in_child();

  // The parts that others ask. Each is thread-safe.
  const EntryLists& lists() const noexcept { return lists_; }
  Statistics& statistics() noexcept { return statistics_; }
  GuardLooks& looks() noexcept { return looks_; }
  Derivation& derivation() noexcept { return derivation_; }
  Rescue& rescue() noexcept { return rescue_; }
  ExactValues& exact() noexcept { return exact_values_; }
  const DeviceHolding& devices() const noexcept { return devices_; }
  SideWork& side() noexcept { return side_; }
  /// What an adaptive policy is told, and says.
  Adaptation& adaptation() noexcept { return adaptation_; }
  /// Null in ordinary runs; else policies are only tried here.
  DryRun* dry_run() noexcept { return dry_run_.get(); }

  /// Resident memory of the process when it saved its first tensor; 0 before.
  std::uint64_t rss_at_start() const noexcept { return rss_at_start_; }

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

  void begin_growth();
  void end_growth(const Entry& reading);
  void end_of_growth(const Entry& reading);
  void sample();
  void publish() noexcept;

  std::atomic<bool> paused_{false};
  std::atomic<std::uint64_t> rss_at_start_{0};
  const std::unique_ptr<DryRun> dry_run_;  // null in ordinary runs
  // Each may ask those before it; what they ask of the whole goes by EntryKeeper.
  EntryLists lists_;
  Statistics statistics_;
  HostBuffers buffers_;
  Adaptation adaptation_;
  GuardLooks looks_;
  PolicyInForce policy_;
  ReadAhead read_ahead_;
  Derivation derivation_;
  HostHolding host_;
  DeviceHolding devices_;
  const Holdings holdings_{host_, devices_};
  SideWork side_;
  Intake intake_;
  Settler settler_;
  EntryReader reader_;
  Rescue rescue_;
  ExactValues exact_values_;
};

/// Whether start_stash() was called.
bool has_stash() noexcept;

/// The process's stash. @pre has_stash()
Stash& stash() noexcept;

/// Creates it. The one before, if any, lives on for those who still hold entries of it.
Stash& start_stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {});

}  // namespace cinch::hooks
