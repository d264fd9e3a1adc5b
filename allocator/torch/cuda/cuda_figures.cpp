// SPDX-License-Identifier: Apache-2.0
// Figures, snapshots, histories and out-of-memory errors.
#include <algorithm>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAGuard.h>

#include "allocator/torch/cuda/cuda_allocator.h"
#include "allocator/torch/cuda/driver/core_words.h"
#include "allocator/torch/cuda/figures/snapshot.h"
#include "allocator/torch/cuda/figures/statistics.h"

namespace cinch::allocator {
CudaAllocator::DeviceStats CudaAllocator::getDeviceStats(DeviceIndex index) {
  const DeviceStats native = native_.getDeviceStats(index);
  Device* used = used_device(index);
  return used == nullptr ? native : device_stats(used->core().stats(), used->baseline(), native);
}

void CudaAllocator::resetAccumulatedStats(DeviceIndex index) {
  native_.resetAccumulatedStats(index);
  if (Device* reset = used_device(index); reset != nullptr) reset->reset_accumulated();
}

void CudaAllocator::resetPeakStats(DeviceIndex index) {
  native_.resetPeakStats(index);
  if (Device* reset = used_device(index); reset != nullptr) reset->core().reset_peaks();
}

void CudaAllocator::cacheInfo(DeviceIndex index, std::size_t* largest) {
  native_.cacheInfo(index, largest);
  if (Device* asked = used_device(index); asked != nullptr) {
    const Breakdown where = asked->core().breakdown();
    const std::size_t allowed = where.limit > where.reserved ? where.limit - where.reserved : 0;
    // The driver's memory counts, too: it can be mapped contiguously.
    *largest = std::max({*largest, where.largest, std::min(where.device_free, allowed)});
  }
}

void* CudaAllocator::getBaseAllocation(void* pointer, std::size_t* bytes) {
  Device* owner = owner_of(pointer);
  if (owner == nullptr) return native_.getBaseAllocation(pointer, bytes);
  if (bytes != nullptr) *bytes = owner->core().size_of(to_address(pointer));
  return pointer;
}

void CudaAllocator::tell_allocated(Device& device, void* pointer, std::size_t bytes,
                                   cudaStream_t stream, History::Context context) {
  if (history_.watched()) {
    if (context != nullptr) history_.keep(to_address(pointer), context);
    history_.add(History::TraceEntry::ALLOC, static_cast<DeviceIndex>(device.index()),
                 to_address(pointer), bytes, to_stream(stream), std::move(context));
  }
  if (const auto* python = c10::impl::GPUTrace::get_trace(); python != nullptr) {
    (*python)->trace_gpu_memory_allocation(c10::kCUDA, to_address(pointer));
  }
  if (c10::memoryProfilingEnabled()) {
    const Stats stats = device.core().stats();
    c10::reportMemoryUsageToProfiler(
        pointer, static_cast<std::int64_t>(device.core().size_of(to_address(pointer))),
        stats.allocated, stats.reserved,
        c10::Device(c10::DeviceType::CUDA, static_cast<DeviceIndex>(device.index())));
  }
}

// Called before the free: after it the address may be another block's.
void CudaAllocator::tell_freed(Device& device, void* pointer) {
  const Address address = to_address(pointer);
  if (history_.watched()) {
    const auto block = device.core().find(address);
    if (!block) return;
    const History::Context allocated_under = history_.forget(address);
    history_.add(History::TraceEntry::FREE_REQUESTED, static_cast<DeviceIndex>(device.index()),
                 address, block->requested, block->stream,
                 history_.gather(History::RecordContext::ALL));
  }
  if (const auto* python = c10::impl::GPUTrace::get_trace(); python != nullptr) {
    (*python)->trace_gpu_memory_deallocation(c10::kCUDA, address);
  }
  if (c10::memoryProfilingEnabled()) {
    const std::size_t bytes = device.core().size_of(address);
    const Stats stats = device.core().stats();
    c10::reportMemoryUsageToProfiler(
        pointer, -static_cast<std::int64_t>(bytes), stats.allocated - bytes, stats.reserved,
        c10::Device(c10::DeviceType::CUDA, static_cast<DeviceIndex>(device.index())));
  }
}

void CudaAllocator::tell_observers(Device& device, std::size_t bytes) {
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers;
  {
    const std::lock_guard lock(observers_mutex_);
    observers = observers_;  // called unlocked: they may take the GIL, whose holder may want ours
  }
  if (observers.empty()) return;
  const auto [free, total] = native_.getMemoryInfo(static_cast<DeviceIndex>(device.index()));
  for (const auto& observer : observers) observer(device.index(), bytes, total, free);
}

void CudaAllocator::out_of_memory(Device& device, std::size_t bytes, cudaStream_t stream) {
  const auto index = static_cast<DeviceIndex>(device.index());
  Breakdown where = device.core().breakdown();
  if (const Reclaimer* reclaimer = reclaimer_.load(); reclaimer != nullptr) {
    where.stash = reclaimer->held_bytes(index);
  }
  const DeviceStats native = native_.getDeviceStats(index);
  const auto in_pools = static_cast<std::size_t>(native.reserved_bytes[0].current);
  if (history_.watched()) {
    history_.add(History::TraceEntry::OOM, index, where.device_free, bytes, to_stream(stream),
                 history_.gather(History::RecordContext::STATE));
  }
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), where.allocated,
                                   where.reserved, c10::Device(c10::DeviceType::CUDA, index));
  tell_observers(device, bytes);
  const std::string allowed =
      device.fraction() < 1 ? size_text(where.limit) + " allowed; " : std::string();
  const std::string pools = in_pools == 0 ? std::string()
                                          : "with " + size_text(in_pools) +
                                                " in private pools (e.g., CUDA Graphs) besides, ";
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                   size_text(bytes), ". GPU ", static_cast<int>(index), " has a total capacity of ",
                   size_text(where.device_total), " of which ", size_text(where.device_free),
                   " is free. ", allowed, "Of the allocated memory ", size_text(where.allocated),
                   " is allocated by PyTorch, ", pools, "and ",
                   size_text(where.reserved - where.allocated),
                   " is reserved by PyTorch but unallocated.\nCinch's allocator: ", where.text());
}

c10::cuda::CUDACachingAllocator::SnapshotInfo CudaAllocator::snapshot(MempoolId pool,
                                                                      bool include_traces) {
  auto result = native_.snapshot(pool, include_traces);
  if (pool != MempoolId{0, 0}) return result;
  for_each_device([&](Device& d) {
    const auto index = static_cast<DeviceIndex>(d.index());
    const auto ours = segments(d.core(), index, history_);
    result.segments.insert(result.segments.end(), ours.begin(), ours.end());
    if (!include_traces) return;
    if (result.device_traces.size() <= static_cast<std::size_t>(d.index())) {
      result.device_traces.resize(static_cast<std::size_t>(d.index()) + 1);
    }
    auto& trace = result.device_traces[static_cast<std::size_t>(d.index())];
    const auto trace_of_ours = history_.trace(index);
    trace.insert(trace.end(), trace_of_ours.begin(), trace_of_ours.end());
    std::ranges::stable_sort(trace, {},
                             [](const History::TraceEntry& entry) { return entry.time_.t_; });
  });
  return result;
}

void CudaAllocator::recordHistory(bool enabled,
                                  c10::CachingDeviceAllocator::CreateContextFn recorder,
                                  std::size_t most_entries,
                                  c10::CachingDeviceAllocator::RecordContext when, bool clear,
                                  const std::vector<std::string>& skipped) {
  native_.recordHistory(enabled, recorder, most_entries, when, clear, skipped);
  history_.record(enabled, recorder, most_entries, when, clear, skipped);
  for_each_device([this](Device& d) { d.tell_history(history_.watched()); });
}

void CudaAllocator::pushCompileContext(std::string& text) {
  native_.pushCompileContext(text);
  History::push_compile_context(text);
}

void CudaAllocator::popCompileContext() {
  native_.popCompileContext();
  History::pop_compile_context();
}

void CudaAllocator::setUserMetadata(const std::string& text) {
  native_.setUserMetadata(text);
  History::set_user_metadata(text);
}

void CudaAllocator::attachOutOfMemoryObserver(
    c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) {
  const std::lock_guard lock(observers_mutex_);
  observers_.push_back(std::move(observer));
}

void CudaAllocator::attachAllocatorTraceTracker(
    c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  native_.attachAllocatorTraceTracker(tracker);
  history_.attach(std::move(tracker));
  for_each_device([](Device& d) { d.tell_history(true); });
}

#if CINCH_TORCH_MINOR >= 12
std::shared_ptr<c10::GatheredContext> CudaAllocator::getContextForPointer(const void* pointer) {
  if (auto context = history_.context_of(to_address(pointer)); context != nullptr) return context;
  return native_.getContextForPointer(pointer);
}
#endif

#if CINCH_TORCH_MINOR >= 14
void CudaAllocator::annotateMemory(const void* pointer, const std::string& metadata) {
  Device* owner = owner_of(pointer);
  if (owner == nullptr) return native_.annotateMemory(pointer, metadata);
  if (!history_.watched()) return;
  history_.annotate(static_cast<DeviceIndex>(owner->index()), to_address(pointer),
                    owner->core().size_of(to_address(pointer)), metadata);
}
#endif

}  // namespace cinch::allocator
