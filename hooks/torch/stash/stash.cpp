// SPDX-License-Identifier: Apache-2.0
// The stash's lists: what is taken in, in which order it is encoded, and what is let go. The rest
// is in stash_{aside,derive,encode,guard,harder,offload,read,sizes,trials}.cpp.
#include "hooks/torch/stash/stash.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/stash/device/offload.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_rows.h"
#include "hooks/torch/stash/listeners.h"
#include "policy/rescue.h"

namespace cinch::hooks {
namespace {

// Owned entries looked at per save, and when backward begins: bounds their cost however many the
// program holds on to.
constexpr std::size_t poll_per_save = 16;
constexpr std::size_t poll_per_backward = 4096;

// Page-locked memory for what encodings came to: a page each, for as long as it isn't known.
constexpr std::uint64_t most_outcome_bytes = std::uint64_t{16} << 20;
constexpr std::size_t outcome_segment_bytes = std::size_t{1} << 20;

Stash* instance = nullptr;

}  // namespace

Stash::Stash(policy::Settings settings, std::vector<policy::Settings> dry_run)
    : policy_(keep(std::move(settings))),
      dry_run_(dry_run.empty() ? nullptr : std::make_unique<DryRun>(std::move(dry_run))),
      aside_(this->settings().stream == policy::Stream::side),
      guard_(this->settings().guard),
      pinned_(pinned_host(), this->settings().offload.host_bytes, processes_here()),
      outcomes_(pinned_host(), most_outcome_bytes, 1, outcome_segment_bytes),
      side_(work_aside, this) {
  register_fork_lock(mutex_);
  register_fork_lock(statistics_.mutex());  // planning takes it under the stash's
  register_fork_lock(statistics_.entries().mutex());
  register_fork_lock(encoded_pool_.mutex());
  register_fork_lock(decoded_pool_.mutex());
  register_fork_lock(guard_.mutex());
  register_fork_lock(proofs_.mutex());
  register_fork_lock(pinned_.mutex());
  register_fork_lock(outcomes_.mutex());
  register_fork_lock(reserve_.mutex());
  register_fork_lock(in_flight_.mutex());
  register_fork_lock(unsized_bytes_.mutex());
  register_fork_lock(side_.mutex());
  if (dry_run_ != nullptr) register_fork_lock(dry_run_->mutex());
  begin_policy();
}

const policy::Policy* Stash::keep(policy::Settings settings) {
  return policies_.emplace_back(std::make_unique<policy::Policy>(std::move(settings))).get();
}

// What follows from the policy in force. pre: mutex_ is held, or nobody else knows of the stash
std::vector<std::string> Stash::begin_policy() {
  std::vector<std::string> told = adaptation_.begin(settings());
  const policy::Policy* harder = nullptr;
  if (auto least = dry_run_ == nullptr ? policy::harder(settings()) : std::nullopt) {
    harder = keep(std::move(*least));
  }
  planner_.emplace(*policy_.load(std::memory_order_relaxed), adaptation_.director(), statistics_,
                   harder);
  return told;
}

Verdict Stash::judge(const at::Tensor& tensor, bool is_output,
                     bool is_inplace_on_view) const noexcept {
  const Verdict verdict = hooks::judge(tensor, is_output, is_inplace_on_view, settings().min_bytes);
  if (verdict != Verdict::wanted) return verdict;
  return is_paused() ? Verdict::paused : verdict;
}

Entry& Stash::save(const at::Tensor& tensor, Use& use, std::unique_ptr<Recipe> recipe) {
  if (aside_ && is_forked_child()) settle_orphans();
  // What is not taken, whatever is thrown, is given up after the lock.
  const auto give_up = [this](Recipe* unused) {
    release_sources(*unused);
    delete unused;
  };
  std::unique_ptr<Recipe, decltype(give_up)> offered(recipe.release(), give_up);
  Entries ready;
  std::vector<c10::Storage> freed;
  Entry* entry = nullptr;
  std::size_t aside = 0;
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    if (!growing_.exchange(true, std::memory_order_relaxed)) {
      if_memory_allows([&] { begin_growth(); });
    }
    entry = &find_or_add(tensor);
    // The tensor is saved; nothing of what follows may fail the save.
    entry->append(use);
    ++entry->holders;
    if (offered != nullptr && entry->first_use == &use) {
      entry->recipe.reset(offered.release());
    }
    if (entry->device != nullptr) entry->device->saved_on = current_stream(tensor.device());
    collect_sole_owned(poll_per_save, nullptr, ready);
    freed.swap(freed_later_);
    if (entry->device != nullptr) aside = most_needed_[entry->device->index()];
    message = adaptation_.take_message();
    note_change();
  }
  if (!message.empty()) std::fprintf(stderr, "cinch: %s\n", message.c_str());
  if (rss_at_start_.load(std::memory_order_relaxed) == 0) rss_at_start_ = resident_bytes();
  if_memory_allows([&] {
    if (aside != 0) reserve_.put_aside(tensor.device(), aside);
    if (dry_run_ != nullptr && dry_run_->take_done()) listeners().dry_run_done();
    if (entry->device != nullptr) take_outcomes(entry->device_index());
  });
  settle_all(ready);
  if (entry->device != nullptr) if_memory_allows([&] { move_surplus(); });
  return *entry;
}

// A storage that the program has resized, or given other memory, since it was saved begins a new
// entry; with two entries as its owners it is encoded for neither. Changes nothing when it throws.
// pre: mutex_ is held, as in all that follows up to release()
Entry& Stash::find_or_add(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (Entry* known = waiting_.find(storage)) return *known;
  read_ahead_.make_room();
  auto entry = std::make_unique<Entry>();
  entry->raw = storage;
  entry->identity = StorageIdentity(storage);
  entry->raw_bytes = storage.nbytes();
  entry->step = static_cast<std::uint32_t>(optimizer_steps());
  if (storage.device_type() == c10::kCUDA) {
    entry->device = std::make_unique<OnDevice>(current_stream(storage.device()));
  }
  if (tensor.is_view()) entry->cover = std::make_unique<Geometry>(tensor._base());
  waiting_.add(*entry);
  entry->id = next_id_++;
  read_ahead_.add(*entry);
  ++alive_;
  return *entry.release();
}

void Stash::begin_growth() {
  ++growth_;
  if (change_ && alive_ == 0) take_up_change();
  adaptation_.begin_growth();
  read_ahead_.begin_growth(aside_ || offloads_, next_id_, optimizer_steps());
}

void Stash::change_policy(policy::Settings settings, void (*done)(const std::string& words)) {
  const std::lock_guard lock(mutex_);
  change_ = Change{std::move(settings), done};
  if (alive_ == 0) take_up_change();
}

// pre: mutex_ is held, nothing is held: no entry knows of the old policy's plans and layers
void Stash::take_up_change() {
  Change change = std::move(*change_);
  change_.reset();
  const std::string before = settings().name;
  policy_.store(keep(std::move(change.settings)), std::memory_order_release);
  const std::vector<std::string> told = begin_policy();
  guard_.change(settings().guard);
  if (adaptation_.director() == nullptr) listeners().wants({});
  peak_ = at_boundary_ = {};
  const std::string words = before + " -> " + settings().name;
  timeline_.decided("policy", "all", words);
  listeners().policy(settings().name);
  tell(telemetry::EventKind::message, "policy: %s", words.c_str());
  for (const std::string& message : told) {
    if (!message.empty()) tell(telemetry::EventKind::message, "%s", message.c_str());
  }
  change.done(told.back().empty() ? words : words + "; " + told.back());
}

void Stash::forget_in_window(Entry& entry) {
  waiting_.leave_window(entry);
  planned_.leave_window(entry.plan());
}

// Plans entries whose storage nobody else owns any more, and makes room for them in the window.
void Stash::collect_sole_owned(std::size_t at_most, const Entry* but, Entries& ready) {
  for (std::size_t looked = std::min(at_most, waiting_.owned().size());
       looked > 0 && !waiting_.owned().empty(); --looked) {
    Entry& entry = waiting_.next_owned();
    // One for which there is no memory stays, and is looked at again.
    const bool leaves = entry.raw.use_count() == 1 && &entry != but && !awaits_source(entry) &&
                        plan(entry, ready);
    if (!leaves) waiting_.skip_owned();
  }
  leave_window(window_limit(), but, ready);
}

// Plans an owned entry, which then is one no more.
// @return false when there is no memory for that: nothing has changed then
bool Stash::plan(Entry& entry, Entries& ready) noexcept {
  const bool prepared = if_memory_allows([&] {
    make_room_for_one(ready);
    waiting_.make_place();
  });
  if (!prepared) return false;
  const bool planned = if_memory_allows([&] { planner_->plan(entry, growth_); });
  const bool waits = planned && entry.plan().encodes() && dry_run_ == nullptr;
  if (!waits) waiting_.give_up_place();
  if (!planned) return false;
  waiting_.remove_owned(entry);
  entry.cover.reset();
  planned_.add(entry.plan());
  if (entry.device != nullptr) {
    auto& most = most_needed_[entry.device->index()];
    most = std::max({most, entry.plan().device_bytes, Planner::harder_bytes(entry)});
  }
  adaptation_.add(entry, entry.plan().stored_bytes - entry.plan().aside_bytes(), peak_.raw_bytes);
  if (!waits) {
    start_settling(entry, ready);
    return true;
  }
  entry.place = Entry::Place::window;
  waiting_.enter_window(entry);
  planned_.enter_window(entry.plan());
  return true;
}

std::size_t Stash::window_limit() const {
  return static_cast<std::size_t>(settings().raw_window * static_cast<double>(planned_.all()));
}

void Stash::leave_window(std::size_t limit, const Entry* but, Entries& ready) {
  while (held_.window > limit) {
    Entry& oldest = waiting_.oldest();
    if (&oldest == but || !if_memory_allows([&] { make_room_for_one(ready); })) return;
    leave_window(oldest, ready);
  }
}

// pre: `ready` has room for one
void Stash::leave_window(Entry& entry, Entries& ready) {
  forget_in_window(entry);
  entry.watched = entry.plan().candidates.front().approximates &&
                  guard_.wants(entry.entry_class->members[entry.member], entry.raw_bytes,
                               entry.step, peak_.raw_bytes);
  start_settling(entry, ready);
}

void Stash::start_settling(Entry& entry, Entries& ready) {
  entry.place = Entry::Place::settling;
  held_.settling += entry.raw_bytes;
  ++entry.holders;
  ready.push_back(&entry);
}

void Stash::release(Entry& entry, Use& use) noexcept {
  if (growing_.exchange(false, std::memory_order_relaxed)) {
    sample();
    publish();
  }
  drop_holder(entry, &use);
}

void Stash::drop_holder(Entry& entry, Use* use) noexcept {
  std::string_view never_settled;
  {
    const std::lock_guard lock(mutex_);
    if (use != nullptr) {
      entry.remove(*use);
      if (entry.watched) guard_.forget(*use);
      if (entry.tried) adaptation_.forget(*use);
    }
    if (--entry.holders != 0) return;
    --alive_;
    switch (entry.place) {
      case Entry::Place::owned:
        never_settled = entry.raw.use_count() == 1 ? "read by backward before it was encoded"
                                                   : "still held by the program itself";
        waiting_.remove_owned(entry);
        break;
      case Entry::Place::window:
        never_settled = "read by backward before it was encoded";
        forget_in_window(entry);
        break;
      case Entry::Place::settling:
        // Otherwise whoever settles it holds it.
        if (take_back(entry)) held_.settling -= entry.raw_bytes;
        break;
      case Entry::Place::settled:
        held_.remove(entry);
        if (entry.device == nullptr) break;
        if (EntryQueue* queue = entry.device->queue) queue->remove(entry);
        break;
    }
    if (entry.entry_class != nullptr) planned_.remove(entry.plan());
    if (dry_run_ != nullptr) dry_run_->forget(entry);
    read_ahead_.remove(entry);
    note_change();
  }
  if (!never_settled.empty()) statistics_.passed_through(never_settled, entry.raw_bytes);
  // Device memory that is a parent's stays its own.
  if (entry.device != nullptr && entry.device->is_a_parents()) return;
  if (entry.recipe != nullptr) release_sources(*entry.recipe);
  delete &entry;
}

// The stash stops growing: a backward begins, by reading `reading`.
void Stash::end_growth(const Entry* reading) {
  if (!growing_.exchange(false, std::memory_order_relaxed)) return;
  backward_began();
  Entries ready;
  {
    const std::lock_guard lock(mutex_);
    collect_sole_owned(poll_per_backward, reading, ready);
  }
  settle_all(ready);
  if_memory_allows([&] { end_of_growth(reading); });
}

// What else is done then; all of it may be left out.
void Stash::end_of_growth(const Entry* reading) {
  if (dry_run_ != nullptr) {
    const std::lock_guard lock(mutex_);
    dry_run_->end_growth(waiting_.sole_bytes());
  }
  if (reading != nullptr && reading->device != nullptr) move_surplus();
  sample();
  publish();
  encoded_pool_.new_period();
  decoded_pool_.new_period();
  if (allocator::Core* core = allocator::host_core(); core != nullptr) core->decay();
}

// Takes the peak's measure. What the program itself owns at this moment costs nothing extra for
// being saved, and counts neither as raw nor as stored.
void Stash::sample() {
  const std::lock_guard lock(mutex_);
  at_boundary_ = {held_.raw(), held_.stored(), 0, held_.offloaded()};
  const bool adapts = adaptation_.director() != nullptr;
  // Of equal peaks the last one tells what an adaptive policy, and the window, came to.
  const bool may_be_peak = held_.raw() + held_.owned >= peak_.raw_bytes;
  if (!adapts && !may_be_peak) return;
  const std::uint64_t sole = waiting_.sole_bytes();
  Peak now = at_boundary_;
  now.raw_bytes += sole;
  now.stored_bytes += sole;
  now.held_elsewhere_bytes = held_.owned - sole;
  // As if all that left the window were encoded: how far the side thread got, and what is watched,
  // must not decide anything.
  if (adapts) adaptation_.measure(now.raw_bytes, planned_.out_of_window() + held_.window + sole);
  if (now.raw_bytes >= peak_.raw_bytes) peak_ = now;
}

// Tells the telemetry segment how things are.
void Stash::publish() noexcept {
  if (listeners().boundary == nullptr) return;
  Boundary boundary;
  const PinnedPool::Figures pinned = pinned_.figures();
  {
    const std::lock_guard lock(mutex_);
    const policy::Director* director = adaptation_.director();
    boundary = {at_boundary_.raw_bytes,
                at_boundary_.stored_bytes,
                peak_.raw_bytes,
                peak_.stored_bytes,
                peak_.held_elsewhere_bytes,
                at_boundary_.offloaded_bytes,
                pinned.used,
                pinned.reserved,
                director == nullptr ? 0 : director->changes()};
  }
  listeners().boundary(boundary, statistics_);
}

void Stash::begin_in_child() {
  side_.begin_in_child();
  const std::lock_guard lock(mutex_);
  change_.reset();  // asked of the parent
  // What lies on a device is the parent's: it must not be freed here.
  static auto& of_parents = *new std::deque<std::vector<c10::Storage>>;
  of_parents.push_back(std::exchange(freed_later_, {}));
  peak_ = {};
  timeline_.restart();
  rss_at_start_ = 0;
}

// pre: mutex_ is held
void Stash::note_change() noexcept {
  timeline_.note(held_.raw(), held_.stored(), held_.owned);
}

void Stash::fill_timeline(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  timeline_.fill(report);
}

Stash::Peak Stash::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::uint64_t Stash::settled_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  return held_.on_device(device);
}

std::uint64_t Stash::most_settled_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  return held_.most_on_device(device);
}

std::uint64_t Stash::bytes() const {
  const std::lock_guard lock(mutex_);
  return held_.all();
}

bool has_stash() noexcept {
  return instance != nullptr;
}

Stash& stash() noexcept {
  return *instance;
}

Stash& start_stash(policy::Settings settings, std::vector<policy::Settings> dry_run) {
  instance = new Stash(std::move(settings), std::move(dry_run));
  return *instance;
}

}  // namespace cinch::hooks
