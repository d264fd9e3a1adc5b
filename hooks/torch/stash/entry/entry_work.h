// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "policy/operators/operand.h"

/// Helpers for the parts of the stash that work on one entry.
namespace cinch::hooks {

/// Marks, for its scope, that this thread encodes or decodes and may hold an entry's lock. An
/// allocator that runs out of memory in this thread can then get none from the stash.
class AtWork {
 public:
  AtWork() = default;
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork() { at_work_ = before_; }

  static bool here() noexcept { return at_work_; }

 private:
  static inline thread_local bool at_work_ = false;
  bool before_ = std::exchange(at_work_, true);
};

/// Holds an entry's own lock. The process is not forked meanwhile.
class EntryLock {
 public:
  explicit EntryLock(const Entry& entry) : gate_(entry_work()), lock_(entry.mutex()) {}

 private:
  const std::shared_lock<std::shared_mutex> gate_;
  const std::lock_guard<std::mutex> lock_;
};

/// The same, for a thread that encodes or decodes the entry.
class EntryWork {
 public:
  explicit EntryWork(const Entry& entry) : lock_(entry) {}

 private:
  const AtWork here_;
  const EntryLock lock_;
};

/// Why an entry is kept when there was no memory to encode it.
constexpr std::string_view no_memory = "no memory to encode it";

class Stopwatch {
 public:
  std::uint64_t nanoseconds() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// What backward reads of tensors saved at `site`, if its operator's arguments allow it; values if
/// that is unknown.
inline codecs::Reads reads_at(const Site& site) {
  const SiteNames* names = site.names();
  return names == nullptr ? codecs::Reads::values
                          : policy::operand_fact(names->op, names->operand).reads;
}

/// Whether backward reads values of tensors saved at `site`; true if that is unknown.
inline bool reads_values(const Site& site) {
  return reads_at(site) == codecs::Reads::values;
}

/// Why a storage on a CUDA device is kept: `plan` has no candidate.
inline std::string_view reason_to_keep(const Plan& plan) noexcept {
  return plan.reason.empty() ? "no codec for CUDA" : plan.reason;
}

/// Why a storage is kept: no candidate of `plan` served.
inline std::string_view reason_not_to_encode(const Plan& plan) noexcept {
  return plan.reason.empty() ? "no codec can represent it" : plan.reason;
}

/// Adds one storage of `stored` bytes to the totals in `by` and to the entry's report row.
inline void count(Entry& entry, OpTotals& by, std::size_t stored,
                  std::uint64_t nanoseconds) noexcept {
  by.add(entry.raw_bytes, stored, nanoseconds);
  entry.row->add(by, entry.raw_bytes, stored, nanoseconds);
}

/// Adds the time that decoding or computing an entry's values took to the totals in `by` and to the
/// entry's report row.
inline void count_reading(Entry& entry, OpTotals& by, const Stopwatch& watch) noexcept {
  const std::uint64_t nanoseconds = watch.nanoseconds();
  by.decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  entry.row->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

/// The candidate's description for its codec, with the bits of the entry's planes.
inline codecs::Description described(const Plan::Candidate& candidate, const Entry& entry) {
  codecs::Description what = candidate.what;
  if (candidate.mixed_bits > 0 && entry.planes != nullptr) what.plane_bits = entry.planes->bits;
  return what;
}

/// `what` with an entry's sides, or null, for a candidate that takes them; nullopt where there are
/// none that fit.
inline std::optional<codecs::Description> with_sides(const Plan::Candidate& candidate,
                                                     const codecs::Description& what,
                                                     const Sides* sides) {
  if (!candidate.by_sides) return what;
  return sides == nullptr ? std::nullopt : sides->added_to(what);
}

inline c10::weak_intrusive_ptr<c10::StorageImpl> weak(const c10::Storage& storage) {
  return c10::weak_intrusive_ptr<c10::StorageImpl>(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl()));
}

/// Makes `buffer`, of which encoding wrote `bytes`, the entry's encoded data.
inline void hold_encoded(Entry& entry, c10::DataPtr buffer, std::size_t bytes) noexcept {
  const auto deleter = buffer.get_deleter();
  void* const data = buffer.get();
  entry.encoded = {data, buffer.release_context(), deleter};
  entry.encoded_bytes = bytes;
}

/// Makes a storage of `data`. @param allocator Its allocator; null: none that PyTorch knows
inline c10::Storage storage_of(c10::DataPtr data, std::size_t bytes,
                               c10::Allocator* allocator = nullptr) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), allocator, /*resizable=*/false};
}

}  // namespace cinch::hooks
