// SPDX-License-Identifier: Apache-2.0
// Allocation and frees. Figures, snapshots and errors: cuda_figures.cpp.
#include "allocator/torch/cuda/cuda_allocator.h"

#include <cstdio>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "allocator/torch/cuda/driver/core_words.h"

namespace cinch::allocator {
namespace {

CudaAllocator* instance = nullptr;  // for deleters, which are plain functions

c10::DeviceIndex current_device() {
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

}  // namespace

CudaAllocator::CudaAllocator(Native& native)
    : native_(native), native_deleter_(native.raw_deleter()) {
  instance = this;
}

Device& CudaAllocator::device(int index) {
  TORCH_CHECK(index >= 0 && index < RuntimeDriver::most_devices, "Invalid device argument ", index);
  if (Device* made = devices_[index].load(std::memory_order_acquire); made != nullptr) {
    return *made;
  }
  const std::lock_guard lock(making_device_);
  if (Device* made = devices_[index].load(std::memory_order_acquire); made != nullptr) {
    return *made;
  }
  auto* made = new Device(index, ranges_, history_);
  if (made->usable()) {
    made->core().set_reclaim([this, index](std::size_t bytes) { return reclaim(index, bytes); });
    // PYTORCH_CUDA_ALLOC_CONF or the program may have set it before the device was set up.
    const double fraction =
        native_.initialized() ? native_.getMemoryFraction(static_cast<DeviceIndex>(index)) : 1;
    if (fraction < 1) made->set_fraction(fraction);
    made->tell_history(history_.watched());
  } else {
    std::fprintf(stderr, "cinch: device %d keeps PyTorch's own CUDA allocator: %s\n", index,
                 made->fault().c_str());
  }
  devices_[index].store(made, std::memory_order_release);
  return *made;
}

Core* CudaAllocator::core(int index) {
  Device& found = device(index);
  return found.usable() ? &found.core() : nullptr;
}

Device* CudaAllocator::used_device(int index) noexcept {
  if (index < 0 || index >= RuntimeDriver::most_devices) return nullptr;
  Device* made = devices_[index].load(std::memory_order_acquire);
  return made != nullptr && made->usable() ? made : nullptr;
}

Core* CudaAllocator::used_core(int index) noexcept {
  Device* used = devices_are_parents_ ? nullptr : used_device(index);
  return used == nullptr ? nullptr : &used->core();
}

void CudaAllocator::lock_for_fork() {
  making_device_.lock();
  imports_.mutex().lock();
  for_each_device([](Device& d) { d.exports().mutex().lock(); });
  for_each_device([](Device& d) { d.core().lock_for_fork(); });
  ranges_.mutex().lock();
  history_.mutex().lock();
  observers_mutex_.lock();
  use_on_oom_mutex_.lock();
}

void CudaAllocator::unlock_after_fork() {
  use_on_oom_mutex_.unlock();
  observers_mutex_.unlock();
  history_.mutex().unlock();
  ranges_.mutex().unlock();
  for_each_device([](Device& d) { d.core().unlock_after_fork(); });
  for_each_device([](Device& d) { d.exports().mutex().unlock(); });
  imports_.mutex().unlock();
  making_device_.unlock();
}

void CudaAllocator::begin_in_child() {
  for_each_device([this](Device&) { devices_are_parents_ = true; });
  unlock_after_fork();
}

// The device whose used block begins at the pointer; null when it is none of ours.
Device* CudaAllocator::owner_of(const void* pointer) {
  const Address address = to_address(pointer);
  const int hint = ranges_.owner_of(address);
  if (hint != AddressRanges::none && device(hint).core().size_of(address) != 0) {
    return &device(hint);
  }
  Device* owner = nullptr;
  for_each_device([&](Device& d) {
    if (owner == nullptr && d.core().size_of(address) != 0) owner = &d;
  });
  return owner;
}

// Called when a core has no memory left: takes PyTorch's idle private memory, else asks the stash.
std::size_t CudaAllocator::reclaim(int index, std::size_t bytes) {
  Device& asked = device(index);
  if (asked.pools().capturing()) return 0;  // a capture allows neither
  if (native_.initialized()) {
    const auto idle = [&] {
      const DeviceStats stats = native_.getDeviceStats(static_cast<DeviceIndex>(index));
      return stats.reserved_bytes[0].current;
    };
    const auto before = idle();
    if (before != 0) {
      native_.emptyCache({0, 0});
      if (const auto after = idle(); after < before) {
        return static_cast<std::size_t>(before - after);
      }
    }
  }
  Reclaimer* reclaimer = reclaimer_.load();
  return reclaimer == nullptr ? 0 : reclaimer->reclaim(index, bytes);
}

// Gives the driver memory for a request that the native allocator could not serve: all that is idle
// with us, or else what the stash can free, in native blocks perhaps. Returns whether there was
// any.
bool CudaAllocator::give_way(Device& asked, std::size_t bytes) {
  if (!asked.usable()) return false;
  if (asked.give_way() != 0) return true;
  Reclaimer* reclaimer = reclaimer_.load();
  if (reclaimer == nullptr || asked.pools().capturing()) return false;
  const std::size_t reclaimed = reclaimer->reclaim(asked.index(), bytes);
  asked.give_way();
  return reclaimed != 0;
}

// Makes a request of the native allocator, and again after we gave way. `OutOfMemory` is what the
// request throws when there is no memory.
template <class OutOfMemory, class Request>
auto CudaAllocator::request_natively(std::size_t bytes, Device& asked, const Request& request) {
  constexpr int most_retries = 4;
  for (int retries = 0;; ++retries) {
    try {
      return request();
    } catch (const OutOfMemory&) {
      if (retries < most_retries && give_way(asked, bytes)) continue;
      tell_observers(asked, bytes);
      throw;
    }
  }
}

void* CudaAllocator::serve_natively(std::size_t bytes, Device& asked, cudaStream_t stream) {
  return request_natively<c10::OutOfMemoryError>(
      bytes, asked, [&] { return native_.raw_alloc_with_stream(bytes, stream); });
}

void CudaAllocator::adopt_stream(cudaStream_t stream) {
  const std::unique_lock lock(adopted_mutex_);
  adopted_.push_back(stream);
}

bool CudaAllocator::is_adopted(cudaStream_t stream) const {
  const std::shared_lock lock(adopted_mutex_);
  return std::ranges::find(adopted_, stream) != adopted_.end();
}

// Whether a stream lives as long as the process. One that is not PyTorch's has its handle for an
// id.
bool CudaAllocator::lasts(const c10::cuda::CUDAStream& stream) const {
  return stream.id() == 0 || stream.id() != reinterpret_cast<c10::StreamId>(stream.stream()) ||
         is_adopted(stream.stream());
}

// The same of a stream of the current device.
bool CudaAllocator::lasts(cudaStream_t stream, DeviceIndex index) const {
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(index);
  if (stream == current.stream()) return lasts(current);
  return stream == nullptr || is_adopted(stream);  // of others nobody knows
}

bool CudaAllocator::goes_to_pool(const Device& asked, cudaStream_t stream) const {
  if (!asked.pools().any()) return false;
  const Reclaimer* reclaimer = reclaimer_.load();
  return asked.pools().take(stream, reclaimer != nullptr && reclaimer->is_at_work());
}

// pre: bytes != 0, the device is the current one; `lasts`: as lasts() says of the stream
void* CudaAllocator::serve(std::size_t bytes, DeviceIndex index, cudaStream_t stream, bool lasts) {
  constexpr std::size_t exbibyte = std::size_t{1} << 60;
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < exbibyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  Device& asked = device(index);
  if (!lasts || !asked.usable() || goes_to_pool(asked, stream)) {
    return serve_natively(bytes, asked, stream);
  }
  History::Context context = history_.gather(History::RecordContext::STATE);
  const Address address = asked.core().allocate(bytes, to_stream(stream));
  if (address == 0) {
    if (use_on_oom_.load()) {
      try {
        return native_.raw_alloc_with_stream(bytes, stream);
      } catch (const c10::OutOfMemoryError&) {
        out_of_memory(asked, bytes, stream);
      }
    }
    out_of_memory(asked, bytes, stream);
  }
  void* pointer = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  tell_allocated(asked, pointer, bytes, stream, std::move(context));
  return pointer;
}

c10::DataPtr CudaAllocator::allocate(std::size_t bytes) {
  const DeviceIndex index = current_device();
  if (!native_.isEnabled()) {
    // Without its cache it lets the driver's error through.
    return request_natively<c10::Error>(bytes, device(index),
                                        [&] { return native_.allocate(bytes); });
  }
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(index);
  void* pointer = bytes == 0 ? nullptr : serve(bytes, index, stream.stream(), lasts(stream));
  return {pointer, pointer, free_block, c10::Device(c10::DeviceType::CUDA, index)};
}

void* CudaAllocator::raw_alloc(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const DeviceIndex index = current_device();
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(index);
  return serve(bytes, index, stream.stream(), lasts(stream));
}

void* CudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  const DeviceIndex index = current_device();
  return serve(bytes, index, stream, lasts(stream, index));
}

void CudaAllocator::free_block(void* pointer) {
  if (pointer != nullptr) instance->free(pointer);
}

bool CudaAllocator::is_shared(std::int32_t descriptor) {
  bool shared = false;
  instance->for_each_device([&](Device& d) { shared = shared || d.exports().has(descriptor); });
  return shared;
}

void CudaAllocator::free(void* pointer) {
  const Address address = to_address(pointer);
  const int hint = ranges_.owner_of(address);
  if (hint != AddressRanges::none) {
    Device& owner = device(hint);
    tell_freed(owner, pointer);
    owner.exports().end(address);
    if (owner.core().free(address)) return;
  }
  if (Device* owner = owner_of(pointer); owner != nullptr) {
    tell_freed(*owner, pointer);
    owner->exports().end(address);
    owner->core().free(address);
    return;
  }
  native_.raw_delete(pointer);
}

void CudaAllocator::recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) {
  // Memory of another process or allocator needs no record; the native allocator agrees.
  if (pointer.get() == nullptr || pointer.get_deleter() != free_block) {
    native_.recordStream(pointer, stream);
    return;
  }
  if (Device* owner = owner_of(pointer.get()); owner != nullptr) {
    TORCH_CHECK(owner->core().record_stream(to_address(pointer.get()), to_stream(stream.stream())),
                "no memory to record the use of a block in another stream");
    return;
  }
  // The native allocator recognises its blocks by its own deleter.
  c10::DataPtr native(pointer.get(), pointer.get_context(), native_deleter_, pointer.device());
  try {
    native_.recordStream(native, stream);
  } catch (...) {
    native.release_context();
    throw;
  }
  native.release_context();
}

void CudaAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  native_.copy_data(to, from, bytes);
}

bool CudaAllocator::is_simple_data_ptr(const c10::DataPtr& pointer) const {
  return pointer.get() == pointer.get_context();
}

void CudaAllocator::emptyCache(MempoolId pool) {
  native_.emptyCache(pool);
  if (pool == MempoolId{0, 0}) for_each_device([](Device& d) { d.core().release_idle(); });
}

double CudaAllocator::getMemoryFraction(DeviceIndex index) {
  return native_.getMemoryFraction(index);
}

void CudaAllocator::setMemoryFraction(double fraction, DeviceIndex index) {
  native_.setMemoryFraction(fraction, index);
  // A device that is set up later asks the native allocator for it.
  if (Device* set = used_device(index); set != nullptr) set->set_fraction(fraction);
}

void CudaAllocator::beginAllocateToPool(DeviceIndex index, MempoolId pool,
                                        std::function<bool(cudaStream_t)> filter) {
  native_.beginAllocateToPool(index, pool, filter);
  device(index).begin_pool(pool, std::move(filter));
}

void CudaAllocator::endAllocateToPool(DeviceIndex index, MempoolId pool) {
  device(index).end_pool(pool);
  native_.endAllocateToPool(index, pool);
}

void CudaAllocator::setUseOnOOM(DeviceIndex index, MempoolId pool, bool use) {
  native_.setUseOnOOM(index, pool, use);
  // PyTorch may also pass false for pools that were never set.
  const std::lock_guard lock(use_on_oom_mutex_);
  if (use) {
    pools_for_oom_.emplace(index, pool);
  } else {
    pools_for_oom_.erase({index, pool});
  }
  use_on_oom_.store(!pools_for_oom_.empty());
}

c10::cuda::CUDACachingAllocator::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    DeviceIndex index, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) {
  auto delta = native_.setCheckpointPoolState(index, std::move(state));
  // PyTorch exchanges a deleter only if it equals raw_deleter().
  for (c10::DataPtr& pointer : delta.dataptrs_allocd) {
    const bool exchanged = pointer.compare_exchange_deleter(native_deleter_, free_block);
    TORCH_INTERNAL_ASSERT(exchanged);
  }
  return delta;
}

void CudaAllocator::enablePeerAccess(DeviceIndex index, DeviceIndex accessed) {
  native_.enablePeerAccess(index, accessed);
  Device& owner = device(accessed);
  TORCH_CHECK(!owner.usable() || owner.add_peer(index), "the driver gives device ",
              static_cast<int>(index), " no access to memory of device ",
              static_cast<int>(accessed));
}

cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                       std::size_t bytes, cudaStream_t stream, bool peer_enabled) {
  if (peer_enabled || to_device == from_device) {
    return native_.memcpyAsync(to, to_device, from, from_device, bytes, stream, peer_enabled);
  }
  // Mapped memory, such as ours, can't be copied across devices by the plain call.
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

}  // namespace cinch::allocator
