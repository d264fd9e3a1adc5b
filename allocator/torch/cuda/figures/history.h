// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// The history of our blocks, as PyTorch records it (torch.cuda.memory._record_memory_history): a
/// trace of the last events, and the stacks of live blocks. Calls trace trackers (such as NCCL's
/// registration) at each event. Blocks of private pools are in PyTorch's own history. Thread-safe;
/// costs one relaxed load when nobody asked.
class History {
 public:
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using RecordContext = c10::CachingDeviceAllocator::RecordContext;
  using Context = std::shared_ptr<c10::GatheredContext>;

  /// Whether history is recorded or a tracker attached.
  bool watched() const noexcept { return watched_.load(std::memory_order_relaxed); }

  /// torch.cuda.memory._record_memory_history, with the meaning that PyTorch's allocator gives it.
  void record(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
              std::size_t most_entries, RecordContext when, bool clear,
              const std::vector<std::string>& skipped);
  void attach(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker);

  /// The current stack, or null when stacks of this level are not recorded. Calls into Python: hold
  /// no lock.
  Context gather(RecordContext level) const;

  /// Adds an event. Trackers are called under this object's lock.
  void add(TraceEntry::Action action, c10::DeviceIndex device, Address address, std::size_t bytes,
           Stream stream, Context context);
#if CINCH_TORCH_MINOR >= 14
  /// Text that the program attaches to a live block (torch.cuda.memory._annotate_memory).
  void annotate(c10::DeviceIndex device, Address address, std::size_t bytes, std::string text);
#endif
  /// Stores, removes or returns the stack under which a live block was allocated; null: unknown.
  void keep(Address address, Context context);
  Context forget(Address address);
  Context context_of(Address address) const;

  /// The trace of one device, oldest first, times in microseconds since the epoch.
  std::vector<TraceEntry> trace(c10::DeviceIndex device);

  // Annotations of this thread's events.
  static void push_compile_context(std::string text);
  static void pop_compile_context();
  static void set_user_metadata(std::string text);

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept {
    return mutex_;
  }

 private:
  void insert(TraceEntry entry);

  std::atomic<bool> watched_{false};
  mutable std::mutex mutex_;
  bool recording_ = false;
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> recorder_{nullptr};
  std::size_t most_entries_ = 1;
  std::vector<TraceEntry::Action> skipped_;
  std::deque<TraceEntry> entries_;
  std::unordered_map<Address, Context> live_;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> trackers_;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace cinch::allocator
