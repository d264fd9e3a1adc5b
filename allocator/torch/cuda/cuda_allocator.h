// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>

#include "allocator/reclaimer.h"
#include "allocator/torch/cuda/device.h"
#include "allocator/torch/cuda/sharing/imports.h"

namespace cinch::allocator {

/// PyTorch's CUDA allocator, over one core for each device and PyTorch's native allocator.
///
/// The cores serve ordinary requests. Private pools (graph capture, torch.cuda.MemPool, graph
/// trees) and their checkpoints are bound to PyTorch's own bookkeeping, so the native allocator
/// serves them. It also serves devices on which a core can't run, and streams that the program made
/// and may destroy: a core keeps a free block's stream to wait for. Every data pointer has our
/// deleter, native memory's too. While the program has caching switched off
/// (torch.cuda.caching_allocator_enable), each block is the driver's own, as with the native
/// allocator. Devices are set up when first used. Never destroyed: tensors
/// outlive everything. Thread-safe.
class CudaAllocator final : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  using DeviceIndex = c10::DeviceIndex;
  using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;
  using MempoolId = c10::MempoolId_t;
  using Native = c10::cuda::CUDACachingAllocator::CUDAAllocator;

  explicit CudaAllocator(Native& native);

  /// The device's core; null when the device is the native allocator's.
  Core* core(int device);
  /// The same, but sets nothing up: null until the device is used, and in children of a process
  /// that used CUDA before the fork: CUDA does not work there, and the memory is the parent's.
  Core* used_core(int device) noexcept;
  /// Sets the reclaimer to ask when a device has no memory left, or null. Lives until replaced.
  void set_reclaimer(Reclaimer* reclaimer) noexcept { reclaimer_.store(reclaimer); }
  /// See CudaPlugin::adopt_stream.
  void adopt_stream(cudaStream_t stream);
  /// For holding all locks over a fork.
  void lock_for_fork();
  void unlock_after_fork();
  /// The same in the child, where the devices are no longer used.
  void begin_in_child();

  // c10::Allocator
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override {
    return native_.isEnabled() ? free_block : native_.raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override;

  // c10::DeviceAllocator
  bool initialized() override { return native_.initialized(); }
  void emptyCache(MempoolId pool) override;
  DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex device) override {
    return native_.getMemoryInfo(device);
  }

  // Memory
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* pointer) override { free_block(pointer); }
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override;
  void cacheInfo(DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* pointer, std::size_t* bytes) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      DeviceIndex device) override {
    return native_.getExpandableSegmentSizes(device);
  }

  // Set-up and limits
  void init(int device_count) override { native_.init(device_count); }
  double getMemoryFraction(DeviceIndex device) override;
  void setMemoryFraction(double fraction, DeviceIndex device) override;
  void enable(bool value) override { native_.enable(value); }
  bool isEnabled() const override { return native_.isEnabled(); }
  /// The native allocator's name: code that asks for it means "not cudaMallocAsync".
  std::string name() override { return native_.name(); }

  // Private pools and their checkpoints
  void beginAllocateToPool(DeviceIndex device, MempoolId pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(DeviceIndex device, MempoolId pool) override;
  void releasePool(DeviceIndex device, MempoolId pool) override {
    native_.releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId pool) override {
    return native_.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    native_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId pool, bool use) override;
  void setNoSplit(DeviceIndex device, MempoolId pool) override { native_.setNoSplit(device, pool); }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId pool,
                                const std::unordered_set<void*>& expected) override {
    return native_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(
      DeviceIndex device, MempoolId pool) override {
    return native_.getCheckpointState(device, pool);
  }
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;

  // Other devices and processes
  void enablePeerAccess(DeviceIndex device, DeviceIndex accessed) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool peer_enabled) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* pointer) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

  // Figures, snapshots and histories
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(MempoolId pool,
                                                         bool include_traces) override;
  bool isHistoryEnabled() override { return native_.isHistoryEnabled(); }
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                     std::size_t most_entries, c10::CachingDeviceAllocator::RecordContext when,
                     bool clear, const std::vector<std::string>& skipped) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& entries) override {
    native_.recordAnnotation(entries);
  }
  void pushCompileContext(std::string& text) override;
  void popCompileContext() override;
  void setUserMetadata(const std::string& text) override;
  std::string getUserMetadata() override { return native_.getUserMetadata(); }
  void attachOutOfMemoryObserver(
      c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(
      c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) override;

#if CINCH_TORCH_MINOR >= 12
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* pointer) override;
  void attachOomRejectionObserver(
      c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override {
    native_.attachOomRejectionObserver(std::move(observer));
  }
#endif
#if CINCH_TORCH_MINOR >= 14
  void markCaptureBegin(DeviceIndex device) override {
    native_.markCaptureBegin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    native_.markCaptureEnd(device);
  }
  bool supportsUserMetadata() override {
    return native_.supportsUserMetadata();
  }
  void annotateMemory(const void* pointer, const std::string& metadata) override;
  c10::DataPtr allocateWithAddress(std::size_t bytes, void* address) override {
    return native_.allocateWithAddress(bytes, address);
  }
#endif

 private:
  static void free_block(void* pointer);
  /// Whether other processes may have the descriptor: it stands for a shared handle.
  static bool is_shared(std::int32_t descriptor);

  Device& device(int index);
  /// The same, but sets nothing up, which would make the device's context: null until it is used,
  /// or while the native allocator serves it.
  Device* used_device(int index) noexcept;
  Device* owner_of(const void* pointer);
  /// Calls `function` for each device that is set up and has a core.
  template <class Function>
  void for_each_device(const Function& function) {
    for (auto& slot : devices_) {
      Device* made = slot.load(std::memory_order_acquire);
      if (made != nullptr && made->usable()) function(*made);
    }
  }

  void* serve(std::size_t bytes, DeviceIndex device, cudaStream_t stream, bool lasts);
  bool is_adopted(cudaStream_t stream) const;
  bool lasts(const c10::cuda::CUDAStream& stream) const;
  bool lasts(cudaStream_t stream, DeviceIndex device) const;
  void* serve_natively(std::size_t bytes, Device& device, cudaStream_t stream);
  template <class OutOfMemory, class Request>
  auto request_natively(std::size_t bytes, Device& device, const Request& request);
  std::size_t reclaim(int device, std::size_t bytes);
  bool goes_to_pool(const Device& device, cudaStream_t stream) const;
  bool give_way(Device& device, std::size_t bytes);
  [[noreturn]] void out_of_memory(Device& device, std::size_t bytes, cudaStream_t stream);
  void tell_observers(Device& device, std::size_t bytes);
  void tell_allocated(Device& device, void* pointer, std::size_t bytes, cudaStream_t stream,
                      History::Context context);
  void tell_freed(Device& device, void* pointer);
  void free(void* pointer);

  Native& native_;
  const c10::DeleterFnPtr native_deleter_;  // of the blocks that the native allocator caches
  AddressRanges ranges_;
  History history_;
  Imports imports_;
  std::array<std::atomic<Device*>, RuntimeDriver::most_devices> devices_{};
  std::mutex making_device_;
  bool devices_are_parents_ = false;
  std::atomic<Reclaimer*> reclaimer_{nullptr};
  mutable std::shared_mutex adopted_mutex_;
  std::vector<cudaStream_t> adopted_;
  // Pools that may serve ordinary requests when all else has failed, and whether there are any.
  std::mutex use_on_oom_mutex_;
  std::set<std::pair<DeviceIndex, MempoolId>> pools_for_oom_;
  std::atomic<bool> use_on_oom_{false};
  std::mutex observers_mutex_;
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers_;
};

}  // namespace cinch::allocator
