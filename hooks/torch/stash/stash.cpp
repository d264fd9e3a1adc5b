// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/stash.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "agent/telemetry/process.h"
#include "allocator/torch/host_allocator.h"
#include "files/terminal.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/program/backward.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "hooks/torch/stash/figures/listeners.h"

namespace cinch::hooks {
namespace {

// How many owned entries a save, and the begin of a backward, look at. Bounds the cost when the
// program holds on to many.
constexpr std::size_t poll_per_save = 16;
constexpr std::size_t poll_per_backward = 4096;

Stash* instance = nullptr;

bool uses_side_stream(const policy::Settings& settings) {
  return settings.stream == policy::Stream::side;
}

}  // namespace

Stash::Stash(policy::Settings settings, std::vector<policy::Settings> dry_run,
             const std::optional<AppraisalSteps>& appraisal)
    : appraisal_(appraisal ? std::make_unique<Appraisal>(*appraisal) : nullptr),
      dry_run_(dry_run.empty() ? nullptr : std::make_unique<DryRun>(std::move(dry_run))),
      adaptation_(lists_.mutex, statistics_, lists_.timeline, dry_run_.get()),
      looks_(settings.guard, lists_, adaptation_, buffers_),
      policy_(std::move(settings), dry_run_ != nullptr, lists_, statistics_, adaptation_,
              looks_.guard()),
      derivation_(lists_, *this, looks_, policy_, holdings_),
      host_(policy_, *this, buffers_, derivation_, looks_),
      devices_(uses_side_stream(this->settings()), lists_, statistics_, policy_, *this, derivation_,
               looks_, read_ahead_),
      side_(uses_side_stream(this->settings()), lists_, *this),
      intake_(dry_run_ != nullptr, lists_, policy_, adaptation_, magnified_, derivation_, looks_,
              read_ahead_, holdings_),
      settler_(lists_, policy_, statistics_, dry_run_.get(), *this, derivation_, looks_, holdings_,
               intake_, side_),
      reader_(lists_, policy_, *this, derivation_, looks_, read_ahead_, holdings_, side_),
      rescue_(lists_, policy_, statistics_, holdings_, settler_),
      exact_values_(lists_, policy_, adaptation_, dry_run_.get(), holdings_, side_) {
  register_fork_lock(statistics_.mutex());
  register_fork_lock(statistics_.entries().mutex());
  register_fork_lock(buffers_.mutex());
  if (dry_run_ != nullptr) register_fork_lock(dry_run_->mutex());
  if (appraisal_ != nullptr) register_fork_lock(appraisal_->mutex());
}

bool Stash::was_taken_as(const Entry& entry, const c10::Storage& storage) const {
  const std::lock_guard lock(lists_.mutex);
  return lists_.shared.was_taken_as(entry, storage);
}

Verdict Stash::judge(const at::Tensor& tensor, bool is_output,
                     bool is_inplace_on_view) const noexcept {
  const Verdict verdict = hooks::judge(tensor, is_output, is_inplace_on_view, settings().min_bytes);
  if (verdict == Verdict::foreign_storage && builds_graph_in_backward()) {
    const std::lock_guard lock(lists_.mutex);
    const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    if (!read_storages_.has(storage.unsafeGetStorageImpl())) return verdict;
  } else if (verdict != Verdict::wanted) {
    return verdict;
  }
  return policy_.is_paused() ? Verdict::paused : Verdict::wanted;
}

Entry& Stash::save(const at::Tensor& tensor, Use& use, OfferedRecipe recipe) {
  if (side_.is_on() && is_forked_child()) side_.do_orphans();
  Intake::Entries ready;
  std::vector<c10::Storage> freed;
  Entry* entry = nullptr;
  std::string message;
  bool began = false;
  Holding& holding = holdings_.of(tensor.device());
  {
    const std::lock_guard lock(lists_.mutex);
    // What a backward saves for a second one begins no growth: its next node reads, and would end
    // it.
    if (runs_backward()) {
      grew_in_backward_.store(true, std::memory_order_relaxed);
    } else if (!lists_.growing.exchange(true, std::memory_order_relaxed)) {
      began = true;
      if_memory_allows([&] { begin_growth(); });
    }
    entry = &intake_.find_or_add(tensor);
    // The tensor is saved now; nothing below may fail the save.
    lists_.add_use(*entry, use);
    ++entry->holders;
    if (use.is_recipes || use.is_stand_in) entry->unsaved = true;
    if (use.site->take_wanted() || use.awaits_comparison) entry->wanted = true;
    if (recipe != nullptr && entry->first_use == &use) entry->recipe.reset(recipe.release());
    intake_.collect(poll_per_save, nullptr, ready);
    freed = settler_.take_freed();
    message = adaptation_.take_message();
    lists_.note_change();
  }
  if (!message.empty()) files::say(message);
  if (statistics_.rss_at_start() == 0) statistics_.set_rss_at_start(resident_bytes());
  if_memory_allows([&] {
    if (dry_run_ != nullptr && dry_run_->take_done()) listeners().all_measured();
    if (began && appraisal_ != nullptr) begin_appraised_growth();
    holding.before_settling(*entry);
  });
  settler_.settle_all(ready);
  if_memory_allows([&] { holding.after_settling(); });
  return *entry;
}

Entry* Stash::save_again(const at::Tensor& tensor, Use& use, std::uint32_t version) {
  const c10::Storage& storage = tensor.storage();
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(lists_.mutex);
    entry = read_storages_.find(storage.unsafeGetStorageImpl(), version);
    if (entry == nullptr) return nullptr;
    // An entry that is planned by now may keep only what its uses so far read.
    if (entry->place != Entry::Place::owned && !entry->plan().keeps_values()) return nullptr;
    ++entry->holders;
  }
  if (!reader_.gave(*entry, storage)) {
    drop_holder(*entry, nullptr);
    return nullptr;
  }
  const std::lock_guard lock(lists_.mutex);
  lists_.add_use(*entry, use);
  return entry;
}

bool Stash::note_comparisons(std::span<const Compared> all) {
  const std::lock_guard lock(lists_.mutex);
  const auto is_planned = [](const Compared& each) {
    return each.first->place != Entry::Place::owned;
  };
  if (std::ranges::any_of(all, is_planned)) return false;
  for (const auto& [entry, use] : all) use->is_comparison_held = true;
  return true;
}

void Stash::note_magnified(std::span<const std::uint32_t> nodes) {
  const std::lock_guard lock(lists_.mutex);
  magnified_.add(nodes);
}

// Backward reads `entry`, perhaps for a node that magnifies errors.
void Stash::learn_magnified(const Entry& entry, const Use& use) noexcept {
  const std::lock_guard lock(lists_.mutex);
  if_memory_allows([&] {
    const bool is_new = magnified_.learn(use);
    const bool was_off = is_new && entry.row != nullptr && entry.plan().may_be_approximated();
    if (!was_off) return;
    const std::string name = entry.row->name.title();
    const char* const what = "exact: a decomposition magnifies its errors";
    tell(telemetry::EventKind::message, "%s: %s", name.c_str(), what);
    lists_.timeline.decided("decomposition", name, what);
  });
}

void Stash::note_read(const c10::Storage& storage, Entry& entry, const Use& use,
                      std::uint32_t version) {
  const std::lock_guard lock(lists_.mutex);
  if (use.reads != codecs::Reads::values) return;
  if_memory_allows([&] { read_storages_.add(storage, entry, version); });
}

void Stash::begin_growth() {
  intake_.begin_growth();
  policy_.take_up_change();
  adaptation_.begin_growth();
  read_ahead_.begin_growth(side_.is_on(), lists_.next_id, optimizer_steps());
}

void Stash::begin_appraised_growth() {
  const double now = static_cast<double>(telemetry::monotonic_now()) * 1e-9;
  appraisal_->begin_growth(optimizer_steps(), statistics_, now);
  looks_.keep_all(appraisal_->compares());
  listeners().compares(appraisal_->compares());
  if (appraisal_->take_done()) listeners().all_measured();
}

c10::Storage Stash::restore(Entry& entry, const Use& use, Reader reader) {
  const bool may_hold_no_values = use.is_comparison_held || !reads_values(*use.site);
  if (reader == Reader::program && may_hold_no_values) use.site->note_shown();
  Holding& holding = holdings_.of(entry);
  if (c10::Storage captured = holding.restore_in_capture(entry, use)) return captured;
  holding.before_reading(entry);
  end_growth(entry);
  if (magnified_.any_nodes()) learn_magnified(entry, use);
  holding.settle_if_put_off(entry);
  GradientProbe* const probe = current_probe();
  if (probe == nullptr) reader_.foresee(entry, use);
  for (;;) {
    try {
      return reader_.read(entry, use, reader, probe);
    } catch (const c10::OutOfMemoryError&) {
      // While this thread worked on the entry, the allocator got no memory from the stash (AtWork).
      if (rescue_.make_room(entry.device_index(), entry.raw_bytes + entry.encoded_bytes) == 0) {
        throw;
      }
    }
  }
}

void Stash::release(Entry& entry, Use& use) noexcept {
  const bool grew = lists_.growing.exchange(false, std::memory_order_relaxed);
  const bool grew_in_backward = grew_in_backward_.load(std::memory_order_relaxed) &&
                                grew_in_backward_.exchange(false, std::memory_order_relaxed);
  if (grew || grew_in_backward) {
    sample();
    publish();
  }
  drop_holder(entry, &use);
}

void Stash::drop_holder(Entry& entry, Use* use) noexcept {
  Holding& holding = holdings_.of(entry);
  std::string_view never_settled;
  {
    const std::lock_guard lock(lists_.mutex);
    if (use != nullptr) {
      lists_.remove_use(entry, *use);
      if (entry.watched) looks_.guard().forget(*use);
      if (entry.tried) adaptation_.forget(*use);
    }
    if (--entry.holders != 0) return;
    --lists_.alive;
    read_storages_.forget(entry);
    switch (entry.place) {
      case Entry::Place::owned:
        never_settled = entry.raw.use_count() == 1 ? "read by backward before it was encoded"
                                                   : "still held by the program itself";
        lists_.waiting.remove_owned(entry);
        break;
      case Entry::Place::window:
        never_settled = "read by backward before it was encoded";
        intake_.forget_in_window(entry);
        break;
      case Entry::Place::settling:
        // Only an entry that was put off has no holder here: a thread that settles one holds it.
        if (holding.leave_queue(entry)) lists_.held.settling -= entry.raw_bytes;
        break;
      case Entry::Place::settled:
        lists_.held.remove(entry);
        holding.leave_queue(entry);
        break;
    }
    lists_.remove_planned(entry);
    if (entry.shared) lists_.shared.remove(entry);
    if (entry.unsaved) {
      derivation_.forget_unsaved(entry);
      if (entry.place != Entry::Place::owned) lists_.held.unsaved -= entry.raw_bytes;
    }
    if (dry_run_ != nullptr) dry_run_->forget(entry);
    read_ahead_.remove(entry);
    lists_.note_change();
  }
  if (!never_settled.empty()) statistics_.passed_through(never_settled, entry.raw_bytes);
  if (!holding.is_this_processes(entry)) return;
  if (entry.recipe != nullptr) derivation_.release_sources(*entry.recipe);
  delete &entry;
}

// If the stash was growing, the growth ends: a backward begins, by reading `reading`.
void Stash::end_growth(const Entry& reading) {
  if (!lists_.growing.exchange(false, std::memory_order_relaxed)) return;
  backward_began();
  Intake::Entries ready;
  {
    const std::lock_guard lock(lists_.mutex);
    intake_.take_from_program(&reading, ready);  // first: recipes wait for it
    intake_.collect(poll_per_backward, &reading, ready);
  }
  settler_.settle_all(ready);
  if_memory_allows([&] { end_of_growth(reading); });
}

// The rest of end_growth(), all of which may be left out when there is no memory.
void Stash::end_of_growth(const Entry& reading) {
  if (dry_run_ != nullptr) {
    const std::lock_guard lock(lists_.mutex);
    dry_run_->end_growth(lists_.waiting.sole_bytes());
  }
  holdings_.of(reading).after_settling();
  sample();
  publish();
  buffers_.new_period();
  if (allocator::Core* core = allocator::host_core(); core != nullptr) core->end_round();
}

// Measures what is held, and updates the peak. What the program itself owns at this moment costs
// nothing extra for being saved, and counts neither as raw nor as stored.
void Stash::sample() {
  const std::lock_guard lock(lists_.mutex);
  const HeldBytes& held = lists_.held;
  const SharedEntries::Bytes programs = lists_.shared.bytes_of_program();
  lists_.at_boundary = {held.raw() - programs.all, held.stored() - programs.raw, 0,
                        held.offloaded()};
  const bool adapts = adaptation_.director() != nullptr;
  if (appraisal_ != nullptr) {
    const std::uint64_t sole = lists_.waiting.sole_bytes();
    appraisal_->measure(held.raw() + sole, held.stored() + sole);
  }
  // On a tie keep the later peak: adaptive policies and the window have converged by then.
  const bool may_be_peak = held.raw() + held.owned >= lists_.planned.raw_at_peak();
  if (!adapts && !may_be_peak) return;
  const std::uint64_t sole = lists_.waiting.sole_bytes();
  lists_.planned.note_peak(sole);
  EntryLists::Peak now = lists_.at_boundary;
  now.raw_bytes += sole;
  now.stored_bytes += sole;
  now.held_elsewhere_bytes = held.owned - sole + programs.all;
  // Counts all entries that left the window as encoded, and none that is held for the side thread
  // alone: decisions must not depend on how far that got, nor on what the guard watches.
  if (adapts) {
    adaptation_.measure(lists_.planned.raw() + sole,
                        lists_.planned.out_of_window() + held.window + sole);
  }
  if (now.raw_bytes >= lists_.peak.raw_bytes) lists_.set_peak(now);
}

// Gives the current figures to the telemetry segment.
void Stash::publish() noexcept {
  if (listeners().boundary == nullptr) return;
  telemetry::LiveFigures live;
  const PinnedPool::Figures pinned = devices().offloader().pinned();
  live.pinned = pinned.used;
  live.pinned_reserved = pinned.reserved;
  {
    const std::lock_guard lock(lists_.mutex);
    live.raw = lists_.at_boundary.raw_bytes;
    live.stored = lists_.at_boundary.stored_bytes;
    live.offloaded = lists_.at_boundary.offloaded_bytes;
    live.raw_at_peak = lists_.peak.raw_bytes;
    live.stored_at_peak = lists_.peak.stored_bytes;
    live.held_elsewhere_at_peak = lists_.peak.held_elsewhere_bytes;
    const policy::Director* director = adaptation_.director();
    live.decisions = director == nullptr ? 0 : director->changes();
  }
  listeners().boundary(live, statistics_);
}

std::size_t Stash::release_idle() {
  std::size_t bytes = buffers_.release_idle();
  if (allocator::Core* core = allocator::host_core()) bytes += core->release_idle();
  return bytes;
}

void Stash::begin_in_child() {
  side_.begin_in_child();
  const std::lock_guard lock(lists_.mutex);
  policy_.forget_change();  // asked of the parent
  // Storages on devices are the parent's: they must not be freed here.
  static auto& of_parents = *new std::deque<std::vector<c10::Storage>>;
  of_parents.push_back(settler_.take_freed());
  lists_.set_peak({});
  lists_.timeline.restart();
  statistics_.set_rss_at_start(0);
}

bool has_stash() noexcept {
  return instance != nullptr;
}

Stash& stash() noexcept {
  return *instance;
}

Stash& start_stash(policy::Settings settings, std::vector<policy::Settings> dry_run,
                   const std::optional<AppraisalSteps>& appraisal) {
  instance = new Stash(std::move(settings), std::move(dry_run), appraisal);
  return *instance;
}

}  // namespace cinch::hooks
