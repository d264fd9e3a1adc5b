// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <shared_mutex>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/fork.h"
#include "hooks/torch/op_context.h"
#include "hooks/torch/parallel.h"
#include "hooks/torch/process_memory.h"

namespace cinch::hooks {
namespace {

// Pending entries looked at per save: bounds a save's cost however many the program holds on to.
constexpr std::size_t poll_per_save = 16;

// The pending window is encoded at the start of backward when it is this share of all that is
// stored; below that, what backward reads first is better left as it is.
constexpr std::uint64_t window_share = 8;

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

Stash* instance = nullptr;

}  // namespace

Stash::Stash(policy::Settings settings)
    : policy_(std::move(settings)), planner_(policy_, statistics_) {
  register_fork_lock(mutex_);
  register_fork_lock(statistics_.mutex());  // planning takes it under the stash's
  register_fork_lock(encoded_pool_.mutex());
  register_fork_lock(decoded_pool_.mutex());
}

Entry& Stash::save(const at::Tensor& tensor, Use& use) {
  const c10::Storage& storage = tensor.storage();
  Entries ready;
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Entry*& slot = by_storage_[storage.unsafeGetStorageImpl()];
    if (slot == nullptr) {
      slot = new Entry;
      slot->raw = storage;
      slot->raw_bytes = storage.nbytes();
      slot->id = next_id_++;
      slot->step = optimizer_steps();
      if (tensor.is_view()) {
        const at::TensorBase& base = tensor._base();
        slot->cover = {c10::DimVector(base.sizes()), c10::DimVector(base.strides()),
                       base.storage_offset()};
      }
      slot->pending_at = static_cast<std::ptrdiff_t>(pending_.size());
      pending_.push_back(slot);
      pending_bytes_ += slot->raw_bytes;
    }
    entry = slot;
    entry->uses.push_back(&use);
    ++entry->holders;
    collect_sole_owned(poll_per_save, nullptr, ready);
  }
  if (rss_at_start_.load(std::memory_order_relaxed) == 0) rss_at_start_ = resident_bytes();
  growing_.store(true, std::memory_order_relaxed);
  for (Entry* sole : ready) settle(*sole);
  return *entry;
}

// pre: mutex_ is held
void Stash::forget_pending(Entry& entry) {
  const auto at = static_cast<std::size_t>(entry.pending_at);
  pending_[at] = pending_.back();
  pending_[at]->pending_at = entry.pending_at;
  pending_.pop_back();
  entry.pending_at = -1;
  pending_bytes_ -= entry.raw_bytes;
  by_storage_.erase(entry.raw.unsafeGetStorageImpl());
}

// Moves entries whose storage nobody else owns from pending to `ready`, planned and held.
// pre: mutex_ is held
void Stash::collect_sole_owned(std::size_t at_most, const Entry* but, Entries& ready) {
  for (std::size_t looked = std::min(at_most, pending_.size()); looked > 0 && !pending_.empty();
       --looked) {
    if (cursor_ >= pending_.size()) cursor_ = 0;
    Entry& entry = *pending_[cursor_];
    if (entry.raw.use_count() != 1 || &entry == but) {
      ++cursor_;
      continue;
    }
    entry.plan = planner_.plan_for(entry);
    for (std::size_t i = 0; i < entry.uses.size(); ++i) entry.uses[i]->reads = entry.plan->reads[i];
    forget_pending(entry);
    ++entry.holders;
    ready.push_back(&entry);
  }
}

// Carries out the plan of an entry that was just collected.
void Stash::settle(Entry& entry) {
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  std::string_view kept_because;
  {
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex);
    if (entry.raw.use_count() != 1) {
      kept_because = "read by another thread when it was to be encoded";
    } else if (!encode(entry, freed)) {
      kept_because = entry.plan->reason.empty() ? "no memory to encode it" : entry.plan->reason;
    }
    if (!kept_because.empty()) entry.state = Entry::State::kept;
  }
  const bool kept = !kept_because.empty();
  if (kept) {
    statistics_.passed_through(kept_because, entry.raw_bytes);
    entry.plan->kept->add(entry.raw_bytes, entry.raw_bytes, 0);
  }
  {
    const std::lock_guard lock(mutex_);
    settled_raw_ += entry.raw_bytes;
    settled_stored_ += kept ? entry.raw_bytes : entry.encoded_bytes;
  }
  drop_holder(entry, nullptr);
}

// pre: entry.mutex is held and the stash is the only owner of entry.raw
bool Stash::encode(Entry& entry, c10::Storage& freed) {
  const Plan& plan = *entry.plan;
  if (plan.action == policy::Decision::Action::drop) {
    plan.dropped->add(entry.raw_bytes, 0, 0);
    entry.state = Entry::State::dropped;
    freed = std::move(entry.raw);
    return true;
  }
  const codecs::RandomKey key = {policy_.settings().seed, entry.id, entry.step};
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Plan::Candidate& candidate = plan.candidates[i];
    c10::DataPtr buffer = encoded_pool_.take(candidate.bound);
    if (candidate.bound != 0 && buffer.get() == nullptr) return false;
    const auto start = Clock::now();
    const codecs::Encoded result = candidate.codec->encode(
        candidate.what, entry.raw.data(), {static_cast<std::byte*>(buffer.get()), candidate.bound},
        key, torch_parallel_for);
    if (!result.representable || result.bytes > entry.raw_bytes) continue;
    if (result.bytes < candidate.bound - candidate.bound / 4) {
      c10::DataPtr exact = encoded_pool_.take(result.bytes);
      if (result.bytes != 0 && exact.get() == nullptr) return false;
      std::memcpy(exact.get(), buffer.get(), result.bytes);
      buffer = std::move(exact);
    }
    entry.encoded = std::move(buffer);
    entry.encoded_bytes = result.bytes;
    entry.candidate = i;
    entry.state = Entry::State::encoded;
    freed = std::move(entry.raw);
    candidate.totals->add(entry.raw_bytes, result.bytes, nanoseconds_since(start));
    return true;
  }
  return false;
}

c10::Storage Stash::restore(Entry& entry, const Use& use) {
  leave_growth(&entry);
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex);
  if (entry.state == Entry::State::pending || entry.state == Entry::State::kept) return entry.raw;
  auto& decoded = entry.decoded[static_cast<std::size_t>(use.reads)];
  if (auto alive = decoded.lock()) return c10::Storage(std::move(alive));
  c10::Storage storage = decode(entry, use.reads);
  decoded = c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl()));
  return storage;
}

// pre: entry.mutex is held, entry is encoded or dropped
c10::Storage Stash::decode(Entry& entry, codecs::Reads reads) {
  const bool nothing = entry.state == Entry::State::dropped || reads == codecs::Reads::nothing;
  c10::DataPtr data = nothing ? zero_pages(entry.raw_bytes) : decoded_pool_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to decode a saved tensor");
  if (!nothing) {
    const Plan::Candidate& candidate = entry.plan->candidates[entry.candidate];
    const auto start = Clock::now();
    const bool decoded = candidate.codec->decode(
        candidate.what, {static_cast<const std::byte*>(entry.encoded.get()), entry.encoded_bytes},
        data.get(), reads, torch_parallel_for);
    TORCH_CHECK(decoded, "cinch: a saved tensor encoded by '", candidate.codec->name(),
                "' can't be decoded; this is a defect of Cinch");
    candidate.totals->decode_nanoseconds.fetch_add(nanoseconds_since(start),
                                                   std::memory_order_relaxed);
  }
  return c10::Storage(c10::Storage::use_byte_size_t(), entry.raw_bytes, std::move(data), nullptr,
                      /*resizable=*/false);
}

void Stash::release(Entry& entry, Use& use) noexcept {
  if (growing_.exchange(false, std::memory_order_relaxed)) sample();
  drop_holder(entry, &use);
}

void Stash::drop_holder(Entry& entry, Use* use) noexcept {
  std::string_view never_settled;
  {
    const std::lock_guard lock(mutex_);
    if (use != nullptr) std::erase(entry.uses, use);
    if (--entry.holders != 0) return;
    if (entry.pending_at >= 0) {
      never_settled = entry.raw.use_count() == 1 ? "read by backward before it was encoded"
                                                 : "still held by the program itself";
      forget_pending(entry);
    } else {
      settled_raw_ -= entry.raw_bytes;
      settled_stored_ -= entry.state == Entry::State::kept ? entry.raw_bytes : entry.encoded_bytes;
    }
  }
  if (!never_settled.empty()) statistics_.passed_through(never_settled, entry.raw_bytes);
  delete &entry;
}

// The stash stops growing: a backward begins, by reading `reading`.
void Stash::leave_growth(const Entry* reading) {
  if (!growing_.exchange(false, std::memory_order_relaxed)) return;
  backward_began();
  Entries ready;
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t window = 0;
    for (const Entry* entry : pending_) {
      if (entry->raw.use_count() == 1 && entry != reading) window += entry->raw_bytes;
    }
    if (window * window_share > settled_stored_) {
      collect_sole_owned(pending_.size(), reading, ready);
    }
  }
  for (Entry* entry : ready) settle(*entry);
  sample();
  encoded_pool_.new_period();
  decoded_pool_.new_period();
  if (allocator::Core* core = allocator::host_core(); core != nullptr) core->decay();
}

// Takes the peak's measure. What the program itself owns at this moment costs nothing extra for
// being saved, and counts neither as raw nor as stored.
void Stash::sample() {
  const std::lock_guard lock(mutex_);
  if (settled_raw_ + pending_bytes_ <= peak_.raw_bytes) return;
  Peak now = {settled_raw_, settled_stored_, 0};
  for (const Entry* entry : pending_) {
    if (entry->raw.use_count() == 1) {
      now.raw_bytes += entry->raw_bytes;
      now.stored_bytes += entry->raw_bytes;
    } else {
      now.held_elsewhere_bytes += entry->raw_bytes;
    }
  }
  if (now.raw_bytes > peak_.raw_bytes) peak_ = now;
}

void Stash::begin_in_child() {
  const std::lock_guard lock(mutex_);
  peak_ = {};
  rss_at_start_ = 0;
}

Stash::Peak Stash::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::uint64_t Stash::bytes() const {
  const std::lock_guard lock(mutex_);
  return settled_stored_ + pending_bytes_;
}

Stash& stash() noexcept {
  return *instance;
}

void start_stash(policy::Settings settings) {
  instance = new Stash(std::move(settings));
}

}  // namespace cinch::hooks
