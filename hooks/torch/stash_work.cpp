// SPDX-License-Identifier: Apache-2.0
// What the stash does to one entry: encoding, decoding, measuring what that did to it, in the
// program's thread or on the side thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/device/on_device.h"
#include "hooks/torch/entry_rows.h"
#include "hooks/torch/fork.h"
#include "hooks/torch/gradient_probe.h"
#include "hooks/torch/module_names.h"
#include "hooks/torch/parallel.h"
#include "hooks/torch/stash.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {
namespace {

// What may wait for the side thread besides what the window's share allows: enough to keep it busy.
constexpr std::size_t least_waiting = std::size_t{16} << 20;

constexpr std::size_t page = 4096;

// How far decoding looks ahead.
constexpr std::size_t most_ahead = 4;

using Clock = std::chrono::steady_clock;

// Whether this thread encodes or decodes, and may hold an entry's lock: an allocator that it asks
// for memory then can't have any from the stash.
thread_local bool at_work = false;

class AtWork {
 public:
  AtWork() = default;
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork() { at_work = before_; }

 private:
  bool before_ = std::exchange(at_work, true);
};

std::uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

c10::weak_intrusive_ptr<c10::StorageImpl> weak(const c10::Storage& storage) {
  return c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl()));
}

/// Finds the bits of each plane where they are mixed, and the ranges that say so where they are
/// wanted, for `entry.planes`.
void measure_planes(const Plan::Candidate& candidate, Entry& entry) {
  entry.planes.reset();
  const bool mixed = candidate.mixed_bits > 0;
  if (!mixed && !(entry.ranged && candidate.codec->name() == "group_quant")) return;
  entry.planes = std::make_unique<PlaneNumbers>();
  auto ranges = policy::plane_ranges(candidate.what, entry.raw.data(), candidate.group);
  if (mixed) entry.planes->bits = policy::plane_bits(ranges, candidate.mixed_bits);
  if (entry.ranged) entry.planes->ranges = std::move(ranges);
}

/// What `candidate` is told, with the bits of the entry's planes.
codecs::Description described(const Plan::Candidate& candidate, const Entry& entry) {
  codecs::Description what = candidate.what;
  if (candidate.mixed_bits > 0 && entry.planes != nullptr) what.plane_bits = entry.planes->bits;
  return what;
}

/// Notes that `entry` is read for `probe`'s sake. @return whether that was all
bool note_read(GradientProbe& probe, Entry& entry, const Use& use) {
  switch (probe.purpose) {
    case GradientProbe::Purpose::peek:
      probe.read.push_back(&entry);
      return true;
    case GradientProbe::Purpose::trial:
      if (entry.tried && use.reads == codecs::Reads::values) probe.read.push_back(&entry);
      break;
    case GradientProbe::Purpose::guard:
      if (entry.watched && entry.sample != nullptr) probe.read.push_back(&entry);
      break;
  }
  return false;
}

/// One more storage that is held as `by` says.
void count(Entry& entry, OpTotals& by, std::size_t stored, std::uint64_t nanoseconds) noexcept {
  by.add(entry.raw_bytes, stored, nanoseconds);
  entry.row->add(by, entry.raw_bytes, stored, nanoseconds);
}

void raise(std::atomic<double>& worst, double value) {
  double before = worst.load(std::memory_order_relaxed);
  while (value > before && !worst.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Stash::settle_all(const Entries& ready) {
  if (ready.empty()) return;
  std::size_t most_waiting = least_waiting;
  if (aside_) {
    const std::lock_guard lock(mutex_);
    most_waiting = std::max(window_limit(), least_waiting);
  }
  for (Entry* entry : ready) {
    if (aside_ && entry->plan().encodes() && entry->device == nullptr) {
      const SideThread::Job job = {entry, SideThread::Job::Kind::settle, {}, entry->raw_bytes};
      if (side_.submit(job, most_waiting)) continue;
      settle_orphans();
    }
    settle(*entry, torch_parallel_for);
  }
}

std::size_t Stash::encode_early(int device, std::size_t bytes) {
  if (at_work) return 0;
  const auto is_there = [device](const Entry& entry) {
    return device == (entry.device == nullptr ? host : static_cast<int>(entry.device->index()));
  };
  const std::uint64_t before = this->bytes();
  Entries ready;
  {
    const std::lock_guard lock(mutex_);
    collect_sole_owned(owned_.size(), nullptr, ready);
    const Entries waiting(window_.begin(), window_.end());
    std::size_t leaving = 0;
    for (Entry* entry : waiting) {
      if (leaving >= bytes) break;
      if (entry == nullptr || !is_there(*entry)) continue;
      leaving += entry->raw_bytes;
      leave_window(*entry, ready);
    }
  }
  // Not on the side thread: the memory is wanted now.
  if (device == host) {
    for (Entry* entry : ready) settle(*entry, torch_parallel_for);
  } else if (!ready.empty()) {
    const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    const std::size_t aside = reserve_.release(on);
    for (Entry* entry : ready) settle(*entry, torch_parallel_for);
    const AtWork here;  // the memory that was freed is for who asked
    reserve_.put_aside(on, aside);
  }
  const std::uint64_t after = this->bytes();
  const std::uint64_t freed = before > after ? before - after : 0;
  if (freed != 0) {
    statistics_.rescued(freed);
    const std::lock_guard lock(mutex_);
    timeline_.decided("rescue", device == host ? "host" : "device " + std::to_string(device),
                      std::to_string(freed) + " bytes freed by compressing earlier");
  }
  return freed;
}

// Carries out the plan of an entry that is settling, and gives up one hold on it.
void Stash::settle(Entry& entry, codecs::ParallelFor parallel_for) {
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  std::string_view kept_because;
  bool wanted = true;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    {
      const std::lock_guard stash_lock(mutex_);
      wanted = entry.first_use != nullptr;
    }
    if (wanted) {
      kept_because = entry.raw.use_count() != 1 ? "read by backward when it was to be encoded"
                                                : encode(entry, freed, parallel_for);
      if (!kept_because.empty()) entry.state = Entry::State::kept;
    }
  }
  const bool kept = !kept_because.empty();
  if (kept) {
    statistics_.passed_through(kept_because, entry.raw_bytes);
    count(entry, *entry.plan().kept, entry.raw_bytes, 0);
  }
  {
    const std::lock_guard lock(mutex_);
    settling_bytes_ -= entry.raw_bytes;
    settled_raw_ += entry.raw_bytes;
    settled_stored_ += entry.stored_bytes();
    if (entry.device != nullptr) settled_on_device_[entry.device->index()] += entry.stored_bytes();
    note_change();
    entry.watched = entry.watched && entry.sample != nullptr;
    entry.place = Entry::Place::settled;
  }
  drop_holder(entry, nullptr);
  if (freed) free_later(std::move(freed));
}

// Returns why the entry has to be kept, or nothing.
// pre: entry.mutex() is held and the stash is the only owner of entry.raw
std::string_view Stash::encode(Entry& entry, c10::Storage& freed,
                               codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (plan.action == policy::Decision::Action::drop) {
    count(entry, *plan.dropped, 0, 0);
    entry.state = Entry::State::dropped;
    freed = std::move(entry.raw);
    return {};
  }
  constexpr std::string_view no_memory = "no memory to encode it";
  const codecs::RandomKey key = {policy_.settings().seed, entry.id, entry.step};
  if (entry.device != nullptr) {
    if (plan.candidates.empty()) return plan.reason.empty() ? "no codec for CUDA" : plan.reason;
    const Plan::Candidate& candidate = plan.candidates.front();
    const auto start = Clock::now();
    const c10::Stream stream = aside_ ? side_stream(entry.raw.device()) : entry.device->saved_on;
    if (!encode_on_device(entry, candidate, key, stream)) return no_memory;
    entry.encoded_bytes = candidate.bound;
    entry.state = Entry::State::encoded;
    freed = std::move(entry.raw);
    count(entry, *candidate.totals, candidate.bound, nanoseconds_since(start));
    return {};
  }
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Plan::Candidate& candidate = plan.candidates[i];
    c10::DataPtr buffer = encoded_pool_.take(candidate.bound);
    if (candidate.bound != 0 && buffer.get() == nullptr) return no_memory;
    const auto start = Clock::now();
    measure_planes(candidate, entry);
    const codecs::Description what = described(candidate, entry);
    const codecs::Encoded result = candidate.codec->encode(
        what, entry.raw.data(), {static_cast<std::byte*>(buffer.get()), candidate.bound}, key,
        parallel_for);
    // A plain copy is no smaller, and is made where a rule asks for it.
    const bool serves = result.bytes < entry.raw_bytes || candidate.codec->name() == "raw";
    if (!result.representable || !serves) continue;
    // Sizes that depend on the data are below their bound: what is held is no larger than they are.
    if (result.bytes + page <= candidate.bound) {
      c10::DataPtr exact = encoded_pool_.take(result.bytes);
      if (result.bytes != 0 && exact.get() == nullptr) return no_memory;
      std::memcpy(exact.get(), buffer.get(), result.bytes);
      buffer = std::move(exact);
    }
    const auto deleter = buffer.get_deleter();
    void* const data = buffer.get();
    entry.encoded = {data, buffer.release_context(), deleter};
    entry.encoded_bytes = result.bytes;
    entry.candidate = static_cast<std::uint8_t>(i);
    entry.state = Entry::State::encoded;
    freed = std::move(entry.raw);
    if ((entry.watched || entry.tried) && candidate.approximates) {
      entry.sample = std::make_unique<GuardSample>();
      entry.sample->exact = std::move(freed);
      freed = {};
      const std::lock_guard lock(mutex_);  // uses may be released meanwhile
      if (entry.watched) guard_.watch(entry);
    }
    count(entry, *candidate.totals, result.bytes, nanoseconds_since(start));
    return {};
  }
  return plan.reason.empty() ? "no codec can represent it" : plan.reason;
}

c10::Storage Stash::restore(Entry& entry, const Use& use) {
  end_growth(&entry);
  GradientProbe* probe = current_probe();
  if (aside_) {
    await_settled(entry);
    if (probe == nullptr) foresee(entry, use.reads);
  }
  if (entry.device == nullptr) return restore_held(entry, use, probe);
  try {
    return restore_held(entry, use, probe);
  } catch (const c10::OutOfMemoryError&) {
    // Asked from inside this entry's work the stash had nothing to give.
    if (encode_early(static_cast<int>(entry.device->index()), entry.raw_bytes) == 0) throw;
  }
  return restore_held(entry, use, probe);
}

c10::Storage Stash::restore_held(Entry& entry, const Use& use, GradientProbe* probe) {
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  if (probe != nullptr) {
    if (note_read(*probe, entry, use)) {
      return c10::Storage(c10::Storage::use_byte_size_t(), entry.raw_bytes,
                          zero_pages(entry.raw_bytes), nullptr, /*resizable=*/false);
    }
    if (probe->replaced == &entry && use.reads == codecs::Reads::values) return probe->replacement;
    if (probe->exact && entry.sample != nullptr) return entry.sample->exact;
  }
  if (entry.state == Entry::State::pending) return entry.raw;
  if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
  if (entry.state == Entry::State::kept) return entry.raw;
  if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
  auto& decoded = entry.decoded->alive[static_cast<std::size_t>(use.reads)];
  auto alive = decoded.lock();
  entry.decoded->ahead = {};
  if (alive) {
    c10::Storage storage(std::move(alive));
    if (entry.device != nullptr)
      hand_over(entry, storage, use.reads, current_stream(storage.device()));
    return storage;
  }
  c10::Storage storage = decode(entry, use.reads, torch_parallel_for);
  decoded = weak(storage);
  if (use.reads == codecs::Reads::values) measure(entry, storage);
  return storage;
}

// pre: entry.mutex() is held, entry is encoded or dropped
c10::Storage Stash::decode(Entry& entry, codecs::Reads reads, codecs::ParallelFor parallel_for) {
  if (entry.device != nullptr) {
    return decode_on_device(entry, reads, current_stream(entry.device->saved_on.device()));
  }
  const bool nothing = entry.state == Entry::State::dropped || reads == codecs::Reads::nothing;
  c10::DataPtr data = nothing ? zero_pages(entry.raw_bytes) : decoded_pool_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to decode a saved tensor");
  if (!nothing) {
    const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
    const auto start = Clock::now();
    const codecs::Description what = described(candidate, entry);
    const bool decoded = candidate.codec->decode(
        what, {static_cast<const std::byte*>(entry.encoded.get()), entry.encoded_bytes}, data.get(),
        reads, parallel_for);
    TORCH_CHECK(decoded, "cinch: a saved tensor encoded by '", candidate.codec->name(),
                "' can't be decoded; this is a defect of Cinch");
    const std::uint64_t nanoseconds = nanoseconds_since(start);
    candidate.totals->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
    entry.row->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  return c10::Storage(c10::Storage::use_byte_size_t(), entry.raw_bytes, std::move(data), nullptr,
                      /*resizable=*/false);
}

// The guard's first measurement of a watched entry. pre: entry.mutex() is held
void Stash::measure(Entry& entry, const c10::Storage& decoded) {
  if (entry.sample == nullptr || entry.sample->values_measured) return;
  entry.sample->values_measured = true;
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  const ValueError error =
      value_error(entry.sample->exact.data(), decoded.data(), candidate.what.type, entry.raw_bytes);
  candidate.totals->checks.fetch_add(1, std::memory_order_relaxed);
  raise(candidate.totals->worst_relative_error, error.relative);
  entry.row->checks.fetch_add(1, std::memory_order_relaxed);
  raise(entry.row->worst_relative_error, error.relative);
  if (guard_.too_far(error)) {
    be_careful(entry, "values", error.relative, settings().guard.max_relative_error,
               error.non_finite != 0);
  }
}

void Stash::gradient_measured(Entry& entry, double error) noexcept {
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  raise(candidate.totals->worst_gradient_error, error);
  raise(entry.row->worst_gradient_error, error);
  if (guard_.too_far(error)) {
    be_careful(entry, "gradients", error, settings().guard.max_gradient_error, false);
  }
}

// Entries of this class are held more precisely from now on.
void Stash::be_careful(Entry& entry, const char* what, double error, double limit,
                       bool broken) noexcept {
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  {
    const std::lock_guard lock(mutex_);
    EntryClass& of_kind = *entry.entry_class;
    auto& caution = of_kind.members[entry.member].caution;
    // One check may find fault with values and with gradients.
    if (caution != entry.caution || caution == policy::most_caution) return;
    caution = broken ? policy::most_caution : static_cast<std::uint8_t>(caution + 1);
    note_caution(entry, what, error, limit, broken);
  }
  candidate.totals->moves.fetch_add(1, std::memory_order_relaxed);
  const OpTotals& row = *candidate.totals;
  if (broken) {
    std::fprintf(stderr,
                 "cinch: guard: %s %s: %s made finite values infinite or NaN, which is a defect of "
                 "Cinch; held losslessly from now on\n",
                 row.op.c_str(), row.operand.c_str(), row.codec.c_str());
  } else {
    std::fprintf(
        stderr,
        "cinch: guard: %s %s, number %u of its shape: %s put the %s off by %.2g times their "
        "size, above %.2g; held more precisely from now on\n",
        row.op.c_str(), row.operand.c_str(), entry.member + 1, row.codec.c_str(), what, error,
        limit);
  }
}

// With the side thread, an entry that waits for it is waited for: what backward reads must not
// depend on how far that thread got.
void Stash::await_settled(Entry& entry) {
  bool settling = false;
  {
    const std::lock_guard lock(mutex_);
    settling = entry.place == Entry::Place::settling;
  }
  if (settling && !side_.wait_for(entry)) settle_orphans();
}

// Notes what backward reads, and has decoded ahead what it read next the last time.
void Stash::foresee(Entry& entry, codecs::Reads reads) {
  std::vector<SideThread::Job> jobs;
  {
    const std::lock_guard lock(mutex_);
    if (entry.ahead) {
      entry.ahead = false;
      ahead_bytes_ -= entry.raw_bytes;
    }
    if (entry.id - growth_start_ >= by_position_.size()) return;
    const ReadOrder::Read read = {entry.id - growth_start_, reads};
    read_order_.add(read);
    for (const ReadOrder::Read& next : read_order_.after(read)) {
      if (jobs.size() == most_ahead || next.position >= by_position_.size()) break;
      Entry* then = by_position_[next.position];
      const bool is_encoded = then != nullptr && then->place == Entry::Place::settled &&
                              then->encoded_bytes != 0 && next.reads != codecs::Reads::nothing;
      if (!is_encoded || then->ahead) continue;
      if (ahead_bytes_ != 0 && ahead_bytes_ + then->raw_bytes > window_limit()) break;
      then->ahead = true;
      ahead_bytes_ += then->raw_bytes;
      ++then->holders;
      jobs.push_back({then, SideThread::Job::Kind::decode, next.reads, 0});
    }
  }
  for (const auto& job : jobs) {
    constexpr auto never_wait = std::numeric_limits<std::size_t>::max();
    if (job.entry->device != nullptr) {
      work_aside(this, job);  // which only enqueues it
      continue;
    }
    if (!side_.submit(job, never_wait)) drop_holder(*job.entry, nullptr);
  }
}

void Stash::decode_ahead(Entry& entry, codecs::Reads reads) {
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    bool wanted = false;
    {
      const std::lock_guard stash_lock(mutex_);
      // In another order than the last step's, what was foreseen may be nobody's.
      for (const Use* use = entry.first_use; use != nullptr && entry.ahead; use = use->next) {
        wanted = wanted || use->reads == reads;
      }
    }
    if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
    auto& alive = entry.decoded->alive[static_cast<std::size_t>(reads)];
    // A watched entry is decoded where it is measured.
    if (wanted && entry.sample == nullptr && alive.expired()) {
      entry.decoded->ahead =
          entry.device == nullptr
              ? decode(entry, reads, codecs::serial_for)
              : decode_on_device(entry, reads, side_stream(entry.device->saved_on.device()));
      alive = weak(entry.decoded->ahead);
    }
  }
  drop_holder(entry, nullptr);
}

void Stash::work_aside(void* self, const SideThread::Job& job) noexcept {
  auto& stash = *static_cast<Stash*>(self);
  if (job.kind == SideThread::Job::Kind::settle) {
    stash.settle(*job.entry, codecs::serial_for);
    return;
  }
  try {
    stash.decode_ahead(*job.entry, job.reads);
  } catch (const std::exception&) {
    stash.drop_holder(*job.entry, nullptr);  // no memory: backward will decode it, or say so
  }
}

void Stash::settle_orphans() {
  for (const SideThread::Job& job : side_.take_orphans()) work_aside(this, job);
}

void Stash::stop_side_thread() noexcept {
  side_.stop();
  settle_orphans();
}

// Drops a storage that the stash gave up. One that a Python object still refers to takes the
// interpreter's lock when it goes, for which the side thread must never wait.
void Stash::free_later(c10::Storage storage) {
  if (!aside_ || storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() == nullptr) {
    return;
  }
  const std::lock_guard lock(mutex_);
  freed_later_.push_back(std::move(storage));
}

}  // namespace cinch::hooks
