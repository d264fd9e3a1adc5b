// SPDX-License-Identifier: Apache-2.0
// How the stash encodes what left the window, in the program's thread or on the side thread.
#include <algorithm>
#include <cstring>
#include <shared_mutex>
#include <string>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/stash.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {
namespace {

// What may wait for the side thread besides what the window's share allows: enough to keep it busy.
constexpr std::size_t least_waiting = std::size_t{16} << 20;

constexpr std::size_t page = 4096;

constexpr std::string_view no_memory = "no memory to encode it";

/// Finds the bits of each plane where they are mixed, and the ranges that say so where they are
/// wanted, for `entry.planes`. Of a device's values the ranges are known only in steps that want
/// them, since the host waits for them; in others its planes share alike.
void measure_planes(const Plan::Candidate& candidate, Entry& entry) {
  entry.planes.reset();
  const bool mixed = candidate.mixed_bits > 0;
  const bool ranged = entry.ranged && candidate.group != 0;
  if (!mixed && !ranged) return;
  entry.planes = std::make_unique<PlaneNumbers>();
  std::vector<float> ranges;
  if (entry.device == nullptr) {
    ranges = policy::plane_ranges(candidate.what, entry.raw.data(), candidate.group);
  } else if (const auto copy =
                 ranged ? host_copy(entry.raw, entry.raw_bytes, entry.device->saved_on) : nullptr) {
    ranges = policy::plane_ranges(candidate.what, copy.get(), candidate.group);
  }
  if (mixed) {
    const auto planes = static_cast<std::size_t>(candidate.what.layout.planes());
    entry.planes->bits = policy::plane_bits(
        ranges.empty() ? std::vector<float>(planes, 1.0F) : ranges, candidate.mixed_bits);
  }
  if (entry.ranged) entry.planes->ranges = std::move(ranges);
}

}  // namespace

void Stash::settle_all(const Entries& ready) noexcept {
  if (ready.empty()) return;
  std::size_t most_waiting = least_waiting;
  if (aside_) {
    const std::lock_guard lock(mutex_);
    most_waiting = std::max(window_limit(), least_waiting);
  }
  for (Entry* entry : ready) {
    if (aside_ && entry->plan().encodes() && entry->device == nullptr) {
      const SideThread::Job job = {entry, SideThread::Job::Kind::settle, {}, entry->raw_bytes};
      bool taken = false;
      if_memory_allows([&] { taken = side_.submit(job, most_waiting); });
      if (taken) continue;
      settle_orphans();
    }
    settle(*entry, torch_parallel_for);
  }
}

std::size_t Stash::encode_early(int device, std::size_t bytes) {
  const std::uint64_t before = this->bytes();
  Entries ready;
  bool puts_off = false;
  {
    const std::lock_guard lock(mutex_);
    puts_off = put_off_.oldest(device) != nullptr;
    collect_sole_owned(waiting_.owned().size(), nullptr, ready);
    Entries waiting;
    if_memory_allows([&] { waiting.assign(waiting_.window().begin(), waiting_.window().end()); });
    std::size_t leaving = 0;
    for (Entry* entry : waiting) {
      if (leaving >= bytes) break;
      if (entry == nullptr || entry->device_index() != device) continue;
      if (!if_memory_allows([&] { make_room_for_one(ready); })) break;
      leaving += entry->raw_bytes;
      leave_window(*entry, ready);
      entry->watched = false;  // exact values would take the memory that is wanted
    }
  }
  // Not on the side thread: the memory is wanted now.
  if (device == host) {
    for (Entry* entry : ready) settle(*entry, torch_parallel_for);
  } else if (!ready.empty() || puts_off) {
    const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    const std::size_t aside = reserve_.release(on);
    for (Entry* entry : ready) settle(*entry, torch_parallel_for);
    std::size_t freed = await_outcomes(device, bytes);
    while (freed < bytes && settle_put_off(device)) freed += await_outcomes(device, bytes - freed);
    const AtWork here;  // the memory that was freed is for who asked
    reserve_.put_aside(on, aside);
  }
  const std::uint64_t after = this->bytes();
  return before > after ? before - after : 0;
}

// Carries out the plan of an entry that is settling, and gives up one hold on it. What there is no
// memory to encode is kept.
void Stash::settle(Entry& entry, codecs::ParallelFor parallel_for, When when) noexcept {
  const std::size_t unsized = bytes_until_sized(entry);
  const bool waits = unsized != 0 && unsized_bytes_.begin(entry.device_index(), unsized,
                                                          settings().in_flight_bytes);
  if (unsized != 0 && !waits && when == When::room) return put_off(entry);
  if (entry.recipe != nullptr) look_at_sources(entry);
  c10::Storage freed;  // after the locks: freeing a storage may wait for the interpreter
  std::string_view kept_because;
  bool wanted = true;
  bool again = false;
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    {
      const std::lock_guard stash_lock(mutex_);
      wanted = entry.first_use != nullptr;
    }
    if (wanted) {
      kept_because = no_memory;
      if_memory_allows([&] { kept_because = carry_out(entry, freed, parallel_for); });
      if (!kept_because.empty()) entry.state = Entry::State::kept;
      if (!kept_because.empty() && entry.device != nullptr &&
          entry.plan().offload == policy::Decision::Offload::always) {
        entry.device->encoding = work_of(entry.device->saved_on);
      }
    }
    if (waits) {
      unsized_bytes_.enqueued(entry.device_index(), unsized, entry.device->outcome);
    }
    again = unsized != 0 && kept_because == no_memory;
    if (again) entry.state = Entry::State::pending;
  }
  if (again) {
    // Others take more than they will as soon as the host knows what they came to.
    if (await_outcomes(entry.device_index(), unsized) != 0) {
      return settle(entry, parallel_for, When::now);
    }
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    entry.state = Entry::State::kept;
  }
  const bool kept = !kept_because.empty();
  if (kept) {
    statistics_.passed_through(kept_because, entry.raw_bytes);
    count(entry, *entry.plan().kept, entry.raw_bytes, 0);
  }
  const bool is_derived =
      entry.state == Entry::State::derived || (dry_run_ != nullptr && dry_run_->has_derived(entry));
  const bool is_stored = entry.recipe != nullptr && !is_derived;
  {
    const std::lock_guard lock(mutex_);
    if (is_stored) entry.recipe->depth = 0;
    held_.settling -= entry.raw_bytes;
    held_.add(entry);
    note_change();
    entry.watched = entry.watched && entry.sample != nullptr;
    entry.place = Entry::Place::settled;
    if (wanted) enqueue_for_host(entry);
  }
  if (is_stored) release_sources(*entry.recipe);
  drop_holder(entry, nullptr);
  if (freed) free_later(std::move(freed));
}

// Returns why the entry has to be kept, or nothing. What throws has changed nothing.
// pre: entry.mutex() is held, the entry is pending
std::string_view Stash::carry_out(Entry& entry, c10::Storage& freed,
                                  codecs::ParallelFor parallel_for) {
  if (!entry.is_as_saved()) return "changed by the program after it was saved";
  if (dry_run_ != nullptr) {
    dry_run_->measure(entry, parallel_for);
    return "a dry run keeps everything";
  }
  if (!entry.is_solely_ours() || entry.captured) {
    return "read by backward when it was to be encoded";
  }
  // Another thread's graph would hold the encoding, and nobody would run it.
  const bool is_recorded = entry.device != nullptr && is_capturing(entry.device->saved_on);
  if (is_recorded) return "while a CUDA graph is captured";
  return encode(entry, freed, parallel_for);
}

// Returns why the entry has to be kept, or nothing.
// pre: entry.mutex() is held and entry.is_solely_ours()
std::string_view Stash::encode(Entry& entry, c10::Storage& freed,
                               codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (plan.action == policy::Decision::Action::drop) {
    count(entry, *plan.dropped, 0, 0);
    entry.state = Entry::State::dropped;
    freed = std::move(entry.raw);
    return {};
  }
  if (entry.device != nullptr) {
    if (plan.candidates.empty()) return reason_to_keep(plan);
    const Plan::Candidate& candidate = plan.candidates.front();
    const Stopwatch watch;
    measure_planes(candidate, entry);
    if (!encode_in_a_stream(entry, candidate, settings().seed)) return no_memory;
    const codecs::Description what = described(candidate, entry);
    entry.encoded_bytes =
        what.plane_bits.empty() ? candidate.bound : candidate.codec->encoded_bytes(what);
    entry.state = Entry::State::encoded;
    freed = std::move(entry.raw);
    if (entry.device->outcome != nullptr) entry.device->source = freed;
    if (candidate.approximates) keep_sample(entry, freed);
    count(entry, *candidate.totals, entry.encoded_bytes, watch.nanoseconds());
    return {};
  }
  if (derive(entry, freed, parallel_for)) return {};
  const codecs::RandomKey key = {settings().seed, entry.id, entry.step};
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Plan::Candidate& candidate = plan.candidates[i];
    c10::DataPtr buffer = encoded_pool_.take(candidate.bound);
    if (candidate.bound != 0 && buffer.get() == nullptr) return no_memory;
    const Stopwatch watch;
    measure_planes(candidate, entry);
    const codecs::Description what = described(candidate, entry);
    const codecs::Encoded result = candidate.codec->encode(
        what, entry.raw.data(), {static_cast<std::byte*>(buffer.get()), candidate.bound}, key,
        parallel_for);
    const bool serves = result.bytes < entry.raw_bytes || candidate.is_copy;
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
    if (candidate.approximates) keep_sample(entry, freed);
    count(entry, *candidate.totals, result.bytes, watch.nanoseconds());
    return {};
  }
  return reason_not_to_encode(plan);
}

// On the side stream while what waits for that one is within its bound, else in the stream of the
// values, whose next tensors then get the memory whatever the device is doing.
// pre: entry.mutex() is held
bool Stash::encode_in_a_stream(Entry& entry, const Plan::Candidate& candidate, std::uint32_t seed) {
  const codecs::RandomKey key = {seed, entry.id, entry.step};
  const int device = entry.device_index();
  const bool aside =
      aside_ && in_flight_.begin(device, entry.raw_bytes, settings().in_flight_bytes);
  const c10::Stream stream = aside ? side_stream(entry.raw.device()) : entry.device->saved_on;
  bool enqueued = false;
  if_memory_allows([&] { enqueued = encode_on_device(entry, candidate, key, stream, outcomes_); });
  if (aside) {
    in_flight_.enqueued(device, entry.raw_bytes, enqueued ? when_encoded(entry) : nullptr);
  }
  return enqueued;
}

// Keeps the exact values of an entry that is watched or tried. pre: entry.mutex() is held
void Stash::keep_sample(Entry& entry, c10::Storage& exact) noexcept {
  if (!entry.watched && !entry.tried) return;
  if (!if_memory_allows([&] { entry.sample = std::make_unique<GuardSample>(); })) return;
  const std::lock_guard lock(mutex_);  // uses may be released meanwhile
  if (entry.watched && !if_memory_allows([&] { guard_.watch(entry); })) entry.watched = false;
  if (!entry.watched && !entry.tried) {
    entry.sample.reset();
    return;
  }
  entry.sample->exact = std::move(exact);
  exact = {};
}

// Drops a storage that the stash gave up. One that a Python object still refers to takes the
// interpreter's lock when it goes, for which the side thread must never wait.
void Stash::free_later(c10::Storage storage) noexcept {
  if (!aside_ || storage.unsafeGetStorageImpl()->pyobj_slot()->load_pyobj() == nullptr) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (if_memory_allows([&] { make_room_for_one(freed_later_); })) {
    freed_later_.push_back(std::move(storage));
    return;
  }
  static_cast<void>(storage.unsafeReleaseStorageImpl());  // no memory to remember it by: it stays
}

}  // namespace cinch::hooks
