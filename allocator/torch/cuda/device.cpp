// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/device.h"

#include <cstdio>
#include <utility>

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

namespace cinch::allocator {

Device::Device(int index, AddressRanges& ranges, History& history)
    : index_(index),
      ranges_(ranges),
      history_(history),
      runtime_(index),
      watched_(runtime_.table(), [this](WatchedDriver::Change change, Address address,
                                        std::size_t bytes) { changed(change, address, bytes); }),
      core_(watched_.table(), Config::device()) {}

// Called under the core's lock.
void Device::changed(WatchedDriver::Change change, Address address, std::size_t bytes) noexcept {
  using Change = WatchedDriver::Change;
  if (change == Change::reserved) return ranges_.add(address, bytes, index_);
  if (change == Change::unreserving) return ranges_.remove(address);
  if (!history_.watched()) return;
  add_to_history(change == Change::mapped ? History::TraceEntry::SEGMENT_MAP
                                          : History::TraceEntry::SEGMENT_UNMAP,
                 address, bytes, 0);
}

void Device::tell_history(bool whether) {
  if (!whether) return core_.set_completed(nullptr);
  core_.set_completed([this](const Core::BlockInfo& block) {
    add_to_history(History::TraceEntry::FREE_COMPLETED, block.address, block.requested,
                   block.stream);
  });
}

void Device::add_to_history(History::TraceEntry::Action action, Address address, std::size_t bytes,
                            Stream stream) noexcept {
  try {
    history_.add(action, static_cast<c10::DeviceIndex>(index_), address, bytes, stream, nullptr);
  } catch (const std::exception& error) {
    // The driver's change can't be undone when a tracker throws.
    std::fprintf(stderr, "cinch: an allocator trace tracker failed: %s\n", error.what());
  }
}

void Device::begin_pool(c10::MempoolId_t pool, PrivatePools::Filter filter) {
  // PyTorch begins a capture's pool first and the capture then, and so its filter, which asks
  // whether a stream is captured, takes nothing yet. Others take at least the current stream.
  const c10::cuda::CUDAStream current =
      c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index_));
  const bool captures =
      c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None ||
      !filter(current.stream());
  pools_.begin(pool, std::move(filter), captures);
  if (captures) core_.pause();
}

void Device::end_pool(c10::MempoolId_t pool) {
  if (pools_.end(pool) == PrivatePools::Ended::capture) core_.resume();
}

bool Device::add_peer(int peer) {
  if (peer == index_ || peer < 0 || peer >= RuntimeDriver::most_devices) return false;
  runtime_.add_peer(peer);
  return core_.renew_access();
}

void Device::set_fraction(double fraction) {
  fraction_ = fraction;
  std::size_t free = 0;
  std::size_t total = 0;
  const Driver driver = runtime_.table();
  if (driver.memory_info(driver.self, &free, &total) != Status::ok) return;
  core_.set_limit(fraction >= 1 ? SIZE_MAX
                                : static_cast<std::size_t>(static_cast<double>(total) * fraction));
}

std::size_t Device::give_way() {
  if (!pools_.capturing()) return core_.release_idle();
  // A capture of this thread forbids event queries; captures of other threads allow them in relaxed
  // mode.
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
    return core_.release_idle();
  }
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  return core_.release_idle_now();
}

Stats Device::baseline() const {
  const std::lock_guard lock(baseline_mutex_);
  return baseline_;
}

void Device::reset_accumulated() {
  const Stats now = core_.stats();
  const std::lock_guard lock(baseline_mutex_);
  baseline_ = now;
}

}  // namespace cinch::allocator
