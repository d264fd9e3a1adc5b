// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "hooks/torch/stash/adaptation.h"
#include "hooks/torch/stash/buffer_pool.h"
#include "hooks/torch/stash/candidate.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/device/reserve.h"
#include "hooks/torch/stash/dry_run.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_queue.h"
#include "hooks/torch/stash/guard.h"
#include "hooks/torch/stash/held_bytes.h"
#include "hooks/torch/stash/plan.h"
#include "hooks/torch/stash/planned_bytes.h"
#include "hooks/torch/stash/proofs.h"
#include "hooks/torch/stash/read_ahead.h"
#include "hooks/torch/stash/recipe.h"
#include "hooks/torch/stash/side_thread.h"
#include "hooks/torch/stash/statistics.h"
#include "hooks/torch/stash/timeline.h"
#include "hooks/torch/stash/waiting_entries.h"
#include "policy/policy.h"

namespace cinch::hooks {

struct GradientProbe;

/// All that Cinch holds for backward: one entry per storage. Thread-safe. Never destroyed in a
/// training process: graphs may outlive everything.
///
/// An entry goes through the stash's lists in one direction. `owned`: the program owns the storage
/// too. `window`: it is solely the stash's and planned, and stays raw while the window has room, so
/// that what backward reads first was never encoded. `settling`: it left the window and is encoded,
/// here or on the side thread. Which entries leave the window depends on what was saved, never on
/// how fast the side thread is: the results of both streams are the same.
class Stash {
 public:
  /// What the stash held when it held most (docs/design.md, "Raw and stored bytes").
  struct Peak {
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t held_elsewhere_bytes = 0;
    std::uint64_t offloaded_bytes = 0;  ///< besides, in the host's memory instead of a device's
  };

  /// @param dry_run Policies that shall only be tried; not empty: all is kept as it is.
  explicit Stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {});
  Stash(const Stash&) = delete;
  Stash& operator=(const Stash&) = delete;

  /// The policy in force. What was returned stays valid.
  const policy::Settings& settings() const noexcept {
    return policy_.load(std::memory_order_acquire)->settings();
  }
  Statistics& statistics() noexcept { return statistics_; }
  const Guard& guard() const noexcept { return guard_; }

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

  /// Holds `entry` as one more use like `like`, for a recipe that is being made.
  /// @return how many recipes lie between its values and stored ones
  std::uint8_t hold_source(Recipe::Source& source, Entry& entry, const Use& like);
  /// Gives up what a recipe holds.
  void release_sources(Recipe& recipe) noexcept;

  /// The storage while it is raw and what it was when it was saved; else nothing.
  c10::Storage raw_of(Entry& entry);

  /// Whether `recipe` is known to give the bits that `actual` has: compared for the first ones of
  /// its kind, and now and then. @param site Where it is saved
  bool proves(Recipe& recipe, const Site& site, const at::Tensor& actual);

  /// Whether `storage` is an entry's that waits raw: saving it adds a use.
  bool is_waiting(const c10::Storage& storage) const;

  /// Who reads what was saved: the node that saved it, or code of the program's own (through
  /// grad_fn._saved_…, in an autograd.Function's backward, in hooks of its own).
  enum class Reader : std::uint8_t { node, program };

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

  /// Memory of a CUDA device (host: of the host) has run out: gives up what was read ahead of
  /// backward and the guard's samples, encodes, in this thread, what is solely the stash's, the
  /// window's oldest first, holds what is then settled in fewer bits, and moves it to the host,
  /// each only until about `bytes` are free. Returns the bytes that the stash holds less there; 0
  /// too when it is the stash's own work that asks. For lossy codecs the results are those of a
  /// smaller window once something had to be encoded.
  std::size_t make_room(int device, std::size_t bytes);

  /// Other processes gave so much of a device back when this one had run out. Locks of the stash's
  /// may be held as in make_room.
  void note_given(int device, std::size_t bytes);
  static constexpr int host = -1;

  /// The guard's word on a watched entry: the relative error of the gradients that a node computed
  /// from its decoded values.
  void gradient_measured(Entry& entry, double error) noexcept;

  /// What an adaptive policy is told, and says.
  Adaptation& adaptation() noexcept { return adaptation_; }

  /// Null in ordinary runs; else policies are only tried here.
  DryRun* dry_run() noexcept { return dry_run_.get(); }

  /// Sums of squared ranges of the entry's planes, or nothing where that isn't known.
  std::vector<float> plane_ranges(Entry& entry);

  /// A choice of the menu of `entry` and the exact values as it would restore them.
  struct Trial {
    std::uint32_t index = 0;
    c10::Storage values;
    // Of host tensors, see policy::Look::Trial.
    double mean_square = -1;
    std::size_t bytes = 0;
  };
  /// What the policy wants to know about holding `entry` otherwise. The entry's exact values have
  /// to be there: raw, in its sample, or losslessly. Reads and allocates much.
  std::vector<Trial> trials(Entry& entry);

  /// Puts `settings` in force as soon as nothing is held, when the stash next begins to grow at the
  /// latest: a step begins then. Where encoding runs stays as it is. Peaks count from then on.
  /// `done` is called once, then, under the stash's lock, with what there is to say; a change that
  /// still waits is given up without a word.
  void change_policy(policy::Settings settings, void (*done)(const std::string& words));
  /// Whether encoding runs on the side thread; no change of the policy alters that.
  bool aside() const noexcept { return aside_; }

  /// While paused nothing is taken; what is held stays held.
  void pause(bool paused) noexcept { paused_.store(paused, std::memory_order_relaxed); }
  bool is_paused() const noexcept { return paused_.load(std::memory_order_relaxed); }

  /// Starts this process's own figures in a forked child, where no side thread is.
  void begin_in_child();

  /// Ends the side thread and does what was left to it; entries are encoded by those who save from
  /// then on.
  void stop_side_thread() noexcept;

  Peak peak() const;
  /// Bytes held now, raw and encoded, moved to the host or not.
  std::uint64_t bytes() const;
  /// Of these, the settled ones on a CUDA device.
  std::uint64_t settled_bytes(int device) const;
  /// The most that these were.
  std::uint64_t most_settled_bytes(int device) const;
  /// The page-locked memory for what was moved to the host.
  PinnedPool::Figures pinned() const { return pinned_.figures(); }
  /// What waited for the side stream of a CUDA device.
  InFlight::Figures in_flight(int device) const { return in_flight_.figures(device); }
  /// What waited for the size that its encoding came to.
  InFlight::Figures unsized(int device) const { return unsized_bytes_.figures(device); }
  /// Fills what `report` says of times.
  void fill_timeline(telemetry::Report& report) const;
  /// Resident memory of the process when it saved its first tensor; 0 before.
  std::uint64_t rss_at_start() const noexcept { return rss_at_start_; }

 private:
  using Entries = std::vector<Entry*>;

  Entry& find_or_add(const at::Tensor& tensor);
  void begin_growth();
  const policy::Policy* keep(policy::Settings settings);
  std::vector<std::string> begin_policy();
  void take_up_change();
  void end_growth(const Entry* reading);
  void end_of_growth(const Entry* reading);
  void forget_in_window(Entry& entry);
  void collect_sole_owned(std::size_t at_most, const Entry* but, Entries& ready);
  bool plan(Entry& entry, Entries& ready) noexcept;
  void leave_window(std::size_t limit, const Entry* but, Entries& ready);
  void leave_window(Entry& entry, Entries& ready);
  void start_settling(Entry& entry, Entries& ready);
  std::size_t window_limit() const;

  void settle_all(const Entries& ready) noexcept;
  /// Whether what has no room for a result of unknown size may wait for some.
  enum class When : std::uint8_t { room, now };
  void settle(Entry& entry, codecs::ParallelFor parallel_for, When when = When::room) noexcept;
  std::string_view carry_out(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);
  std::string_view encode(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);
  bool encode_in_a_stream(Entry& entry, const Plan::Candidate& candidate, std::uint32_t seed);
  void await_settled(Entry& entry);

  std::size_t bytes_until_sized(const Entry& entry) const;
  void put_off(Entry& entry);
  bool take_back(Entry& entry);
  void settle_put_off(Entry& entry);
  bool settle_put_off(int device);
  void take_outcomes(int device);
  std::size_t await_outcomes(int device, std::size_t bytes);
  std::size_t take_outcome(Entry& entry);
  std::size_t note_less_held(const Entry& entry, std::size_t before);
  std::size_t give_up_source_or_encoding(Entry& entry);
  std::size_t shrink_to_size(Entry& entry);
  std::size_t encode_early(int device, std::size_t bytes);
  std::size_t encode_harder(int device, std::size_t bytes);
  std::size_t encode_harder(Entry& entry);
  bool encode_anew(Entry& entry, const Plan::Candidate& candidate, c10::Storage& freed);
  std::size_t give_up_read_ahead(int device, std::size_t bytes);
  std::size_t give_up_read_ahead(Entry& entry);
  void stop_reading_ahead() noexcept;
  void note_rescue(int device, const Statistics::Rescue& by);
  void enqueue_for_host(Entry& entry);
  void move_surplus();
  std::size_t move_out(int device, std::size_t bytes);
  bool move_to_host(Entry& entry, std::size_t* left = nullptr);
  void fetch_ahead(Entry& entry) noexcept;

  bool awaits_source(const Entry& entry) const;
  void look_at_sources(Entry& entry);
  bool derive(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);
  c10::Storage restore_on_host(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);
  c10::Storage derive_values(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);
  c10::Storage restore_for_probe(GradientProbe& probe, Entry& entry, const Use& use) const;

  c10::Storage restore_in_capture(Entry& entry, const Use& use);
  static codecs::Reads reads_of(const Entry& entry, const Use& use, Reader reader);
  c10::Storage restore_held(Entry& entry, const Use& use, Reader reader, GradientProbe* probe);
  bool note_read(GradientProbe& probe, Entry& entry, const Use& use) const;
  c10::Storage decode(Entry& entry, codecs::Reads reads, codecs::ParallelFor parallel_for);
  void decode_ahead(Entry& entry, codecs::Reads reads);
  void foresee(Entry& entry, const Use& use) noexcept;
  void keep_sample(Entry& entry, c10::Storage& exact) noexcept;
  std::size_t give_up_samples(int device, std::size_t bytes);
  std::size_t give_up_sample(Entry& entry);
  std::unique_ptr<GuardSample> take_sample(Entry& entry);
  void measure(Entry& entry, const c10::Storage& decoded);
  void note_size(Entry& entry);
  void be_careful(Entry& entry, const char* what, double error, double limit, bool broken) noexcept;

  void drop_holder(Entry& entry, Use* use) noexcept;
  void note_change() noexcept;
  void note_caution(const Entry& entry, const char* what, double error, double limit,
                    bool broken) noexcept;
  void sample();
  void publish() noexcept;

  static void work_aside(void* self, const SideThread::Job& job) noexcept;
  void settle_orphans() noexcept;
  void free_later(c10::Storage storage) noexcept;

  // All that were in force, since other threads may still read one; grows under mutex_.
  std::vector<std::unique_ptr<const policy::Policy>> policies_;
  std::atomic<const policy::Policy*> policy_;  // the last one
  std::atomic<bool> paused_{false};
  const std::unique_ptr<DryRun> dry_run_;  // null in ordinary runs
  Statistics statistics_;
  BufferPool encoded_pool_;
  BufferPool decoded_pool_;
  const bool aside_;  ///< the policy's stream is "side"

  mutable std::mutex mutex_;
  // All that follows is under mutex_.
  std::optional<Planner> planner_;
  struct Change {
    policy::Settings settings;
    void (*done)(const std::string& words);
  };
  std::optional<Change> change_;  // that waits until nothing is held
  std::size_t alive_ = 0;         // entries
  HeldBytes held_;
  PlannedBytes planned_;
  WaitingEntries waiting_{held_};
  // What encoding an entry on a device may need at most; by index.
  std::array<std::size_t, 128> most_needed_{};
  std::uint32_t next_id_ = 0;
  std::uint64_t growth_ = 0;  // how often the stash began to grow
  Peak peak_;
  Peak at_boundary_;  // when the growth last ended; without what the program owns too
  Timeline timeline_;
  Adaptation adaptation_{mutex_, statistics_, timeline_, dry_run_.get()};

  std::vector<c10::Storage> freed_later_;

  // Of devices, whose sizes only the data decide.
  EntryQueue put_off_;  // until there is room to wait for more of them: settling, held by nobody
  EntryQueue unsized_;  // encoded

  // Moving to the host.
  EntryQueue leaving_;     // the policy's choice
  EntryQueue movable_;     // when a device is out of memory
  EntryQueue staying_;     // of devices; never moved
  EntryQueue sampled_;     // of devices; the guard's, which stay until it is done with them
  bool offloads_ = false;  // something was moved so far

  ReadAhead read_ahead_;  // when aside_ or offloads_

  std::atomic<bool> growing_{false};
  std::atomic<std::uint64_t> rss_at_start_{0};

  Guard guard_;
  Proofs proofs_;
  PinnedPool pinned_;
  PinnedPool outcomes_;
  InFlight in_flight_;
  InFlight unsized_bytes_;
  std::atomic<bool> said_no_room_{false};
  Reserve reserve_;
  SideThread side_;
};

/// Whether start_stash() was called.
bool has_stash() noexcept;

/// The process's stash. @pre has_stash()
Stash& stash() noexcept;

/// Creates it. The one before, if any, lives on for those who still hold entries of it.
Stash& start_stash(policy::Settings settings, std::vector<policy::Settings> dry_run = {});

}  // namespace cinch::hooks
