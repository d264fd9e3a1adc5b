// SPDX-License-Identifier: Apache-2.0
// The stash's lists: what is taken in, in which order it is encoded, and what is let go. How
// entries are encoded and decoded is in stash_{encode,read,guard,aside}.cpp.
#include "hooks/torch/stash.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/device/on_device.h"
#include "hooks/torch/entry_rows.h"
#include "hooks/torch/fork.h"
#include "hooks/torch/op_context.h"
#include "hooks/torch/process_memory.h"
#include "hooks/torch/report.h"
#include "hooks/torch/telemetry.h"

namespace cinch::hooks {
namespace {

// Owned entries looked at per save, and when backward begins: bounds their cost however many the
// program holds on to.
constexpr std::size_t poll_per_save = 16;
constexpr std::size_t poll_per_backward = 4096;

Stash* instance = nullptr;

}  // namespace

Stash::Stash(policy::Settings settings, std::vector<policy::Settings> dry_run)
    : policy_(std::move(settings)),
      dry_run_(dry_run.empty() ? nullptr : std::make_unique<DryRun>(std::move(dry_run))),
      director_(dry_run_ == nullptr ? policy::make_director(policy_.settings())
                                    : policy::make_keeping_director()),
      state_file_(policy_.settings().state_file),
      aside_(policy_.settings().stream == policy::Stream::side),
      planner_(policy_, director_.get(), statistics_),
      guard_(policy_.settings().guard),
      side_(work_aside, this) {
  register_fork_lock(mutex_);
  register_fork_lock(statistics_.mutex());  // planning takes it under the stash's
  register_fork_lock(statistics_.entries().mutex());
  register_fork_lock(encoded_pool_.mutex());
  register_fork_lock(decoded_pool_.mutex());
  register_fork_lock(guard_.mutex());
  register_fork_lock(reserve_.mutex());
  register_fork_lock(side_.mutex());
  if (dry_run_ != nullptr) register_fork_lock(dry_run_->mutex());
  if (director_ != nullptr) message_ = state_file_.load(*director_);
}

Verdict Stash::judge(const at::Tensor& tensor, bool is_output,
                     bool is_inplace_on_view) const noexcept {
  const Verdict verdict = hooks::judge(tensor, is_output, is_inplace_on_view, settings().min_bytes);
  const bool adapts = director_ != nullptr && dry_run_ == nullptr;
  return verdict == Verdict::wanted && adapts && tensor.is_cuda() ? Verdict::host_policy : verdict;
}

Entry& Stash::save(const at::Tensor& tensor, Use& use) {
  if (aside_ && is_forked_child()) settle_orphans();
  Entries ready;
  std::vector<c10::Storage> freed;
  Entry* entry = nullptr;
  std::size_t aside = 0;
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    if (!growing_.exchange(true, std::memory_order_relaxed)) begin_growth();
    entry = &find_or_add(tensor);
    entry->append(use);
    ++entry->holders;
    if (entry->device != nullptr) entry->device->saved_on = current_stream(tensor.device());
    collect_sole_owned(poll_per_save, nullptr, ready);
    freed.swap(freed_later_);
    if (entry->device != nullptr) aside = most_needed_[entry->device->index()];
    message.swap(message_);
    note_change();
  }
  if (aside != 0) reserve_.put_aside(tensor.device(), aside);
  if (!message.empty()) std::fprintf(stderr, "cinch: %s\n", message.c_str());
  if (dry_run_ != nullptr && dry_run_->take_done()) leave_report(current_report());
  if (rss_at_start_.load(std::memory_order_relaxed) == 0) rss_at_start_ = resident_bytes();
  settle_all(ready);
  return *entry;
}

// pre: mutex_ is held, as in all that follows up to release()
Entry& Stash::find_or_add(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  Entry*& slot = by_storage_[storage.unsafeGetStorageImpl()];
  if (slot != nullptr) return *slot;
  auto entry = std::make_unique<Entry>();
  entry->raw = storage;
  entry->raw_bytes = storage.nbytes();
  entry->id = next_id_++;
  entry->step = static_cast<std::uint32_t>(optimizer_steps());
  if (storage.device_type() == c10::kCUDA) {
    entry->device = std::make_unique<OnDevice>(current_stream(storage.device()));
  }
  if (tensor.is_view()) entry->cover = std::make_unique<Geometry>(tensor._base());
  entry->place_index = static_cast<std::uint32_t>(owned_.size());
  owned_.push_back(entry.get());
  owned_bytes_ += entry->raw_bytes;
  if (aside_) by_position_.push_back(entry.get());
  return *(slot = entry.release());
}

void Stash::begin_growth() {
  ++growth_;
  if (director_ != nullptr) begin_step();
  if (!aside_) return;
  growth_start_ = next_id_;
  by_position_.clear();
  read_order_.begin_growth(optimizer_steps());
}

void Stash::forget_owned(Entry& entry) {
  owned_[entry.place_index] = owned_.back();
  owned_[entry.place_index]->place_index = entry.place_index;
  owned_.pop_back();
  owned_bytes_ -= entry.raw_bytes;
  by_storage_.erase(entry.raw.unsafeGetStorageImpl());
}

void Stash::forget_in_window(Entry& entry) {
  window_[entry.place_index - window_start_] = nullptr;
  window_bytes_ -= entry.raw_bytes;
  window_planned_ -= entry.plan().stored_bytes;
  for (; !window_.empty() && window_.front() == nullptr; window_.pop_front()) ++window_start_;
}

// Plans entries whose storage nobody else owns any more, and makes room for them in the window.
void Stash::collect_sole_owned(std::size_t at_most, const Entry* but, Entries& ready) {
  for (std::size_t looked = std::min(at_most, owned_.size()); looked > 0 && !owned_.empty();
       --looked) {
    if (cursor_ >= owned_.size()) cursor_ = 0;
    Entry& entry = *owned_[cursor_];
    if (entry.raw.use_count() != 1 || &entry == but) {
      ++cursor_;
      continue;
    }
    forget_owned(entry);
    plan(entry, ready);
  }
  leave_window(window_limit(), but, ready);
}

void Stash::plan(Entry& entry, Entries& ready) {
  planner_.plan(entry, growth_);
  entry.cover.reset();
  planned_stored_ += entry.plan().stored_bytes;
  if (entry.device != nullptr) {
    auto& most = most_needed_[entry.device->index()];
    most = std::max(most, entry.plan().device_bytes);
  }
  if (director_ != nullptr) {
    try_entry(entry);
    note_choice(entry);
  }
  if (!entry.plan().encodes() || dry_run_ != nullptr) {
    start_settling(entry, ready);
    return;
  }
  entry.place = Entry::Place::window;
  entry.place_index = window_start_ + static_cast<std::uint32_t>(window_.size());
  window_.push_back(&entry);
  window_bytes_ += entry.raw_bytes;
  window_planned_ += entry.plan().stored_bytes;
}

std::size_t Stash::window_limit() const {
  return static_cast<std::size_t>(settings().raw_window * static_cast<double>(planned_stored_));
}

void Stash::leave_window(std::size_t limit, const Entry* but, Entries& ready) {
  while (window_bytes_ > limit) {
    Entry& oldest = *window_.front();
    if (&oldest == but) return;
    leave_window(oldest, ready);
  }
}

void Stash::leave_window(Entry& entry, Entries& ready) {
  forget_in_window(entry);
  // The guard's comparison would make the host wait for a device.
  entry.watched = entry.plan().candidates.front().approximates && entry.device == nullptr &&
                  guard_.wants(entry.entry_class->members[entry.member], entry.raw_bytes,
                               entry.step, peak_.raw_bytes);
  start_settling(entry, ready);
}

void Stash::start_settling(Entry& entry, Entries& ready) {
  entry.place = Entry::Place::settling;
  settling_bytes_ += entry.raw_bytes;
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
      if (entry.tried) forget_tried(*use);
    }
    if (--entry.holders != 0) return;
    switch (entry.place) {
      case Entry::Place::owned:
        never_settled = entry.raw.use_count() == 1 ? "read by backward before it was encoded"
                                                   : "still held by the program itself";
        forget_owned(entry);
        break;
      case Entry::Place::window:
        never_settled = "read by backward before it was encoded";
        forget_in_window(entry);
        break;
      case Entry::Place::settling:
        break;  // whoever settles it holds it
      case Entry::Place::settled:
        settled_raw_ -= entry.raw_bytes;
        settled_stored_ -= entry.stored_bytes();
        if (entry.device != nullptr)
          settled_on_device_[entry.device->index()] -= entry.stored_bytes();
        break;
    }
    if (entry.entry_class != nullptr) planned_stored_ -= entry.plan().stored_bytes;
    if (dry_run_ != nullptr) dry_run_->forget(entry);
    if (entry.ahead) ahead_bytes_ -= entry.raw_bytes;
    note_change();
    const std::uint32_t position = entry.id - growth_start_;
    if (position < by_position_.size() && by_position_[position] == &entry) {
      by_position_[position] = nullptr;
    }
  }
  if (!never_settled.empty()) statistics_.passed_through(never_settled, entry.raw_bytes);
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
  if (dry_run_ != nullptr) {
    const std::lock_guard lock(mutex_);
    std::size_t not_settled = 0;
    for (const Entry* entry : owned_) {
      if (entry->raw.use_count() == 1) not_settled += entry->raw_bytes;
    }
    dry_run_->end_growth(not_settled);
  }
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
  const std::uint64_t waiting = window_bytes_ + settling_bytes_;
  at_boundary_ = {settled_raw_ + waiting, settled_stored_ + waiting, 0};
  if (director_ != nullptr) {
    measure_footprint();
  }
  // Of equal peaks the last one tells what an adaptive policy, and the window, came to.
  if (settled_raw_ + waiting + owned_bytes_ < peak_.raw_bytes) return;
  Peak now = at_boundary_;
  for (const Entry* entry : owned_) {
    if (entry->raw.use_count() == 1) {
      now.raw_bytes += entry->raw_bytes;
      now.stored_bytes += entry->raw_bytes;
    } else {
      now.held_elsewhere_bytes += entry->raw_bytes;
    }
  }
  if (now.raw_bytes >= peak_.raw_bytes) peak_ = now;
}

// Tells the telemetry segment how things are.
void Stash::publish() noexcept {
  if (!telemetry_wanted()) return;
  Boundary boundary;
  {
    const std::lock_guard lock(mutex_);
    boundary = {at_boundary_.raw_bytes,
                at_boundary_.stored_bytes,
                peak_.raw_bytes,
                peak_.stored_bytes,
                peak_.held_elsewhere_bytes,
                director_ == nullptr ? 0 : director_->changes()};
    for (std::size_t i = 0; i < most_needed_.size() && i < boundary.devices.size(); ++i) {
      boundary.devices[i] = most_needed_[i] != 0;
    }
  }
  publish_boundary(boundary, statistics_);
}

void Stash::begin_in_child() {
  side_.begin_in_child();
  begin_telemetry_in_child();
  const std::lock_guard lock(mutex_);
  peak_ = {};
  timeline_.restart();
  rss_at_start_ = 0;
}

// pre: mutex_ is held
void Stash::note_change() noexcept {
  const std::uint64_t waiting = window_bytes_ + settling_bytes_;
  timeline_.note(settled_raw_ + waiting, settled_stored_ + waiting, owned_bytes_);
}

void Stash::fill_timeline(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  timeline_.fill(report);
}

void Stash::fill_dry_run(telemetry::Report& report) const {
  if (dry_run_ != nullptr) dry_run_->fill(report);
}

Stash::Peak Stash::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::uint64_t Stash::settled_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  return settled_on_device_[static_cast<std::size_t>(device)];
}

std::uint64_t Stash::bytes() const {
  const std::lock_guard lock(mutex_);
  return settled_stored_ + owned_bytes_ + window_bytes_ + settling_bytes_;
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
