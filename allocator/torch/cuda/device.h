// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "allocator/core.h"
#include "allocator/torch/cuda/driver/address_ranges.h"
#include "allocator/torch/cuda/driver/runtime_driver.h"
#include "allocator/torch/cuda/driver/watched_driver.h"
#include "allocator/torch/cuda/figures/history.h"
#include "allocator/torch/cuda/private_pools.h"
#include "allocator/torch/cuda/sharing/exports.h"

namespace cinch::allocator {

/// One GPU: its core, over the runtime's driver, and PyTorch's settings for it. Where the core
/// can't run (`usable` is false) PyTorch's own allocator serves the device.
class Device {
 public:
  /// Makes the device's context. @pre both others outlive the device
  Device(int index, AddressRanges& ranges, History& history);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const noexcept { return index_; }
  bool usable() const noexcept { return runtime_.usable(); }
  const std::string& fault() const noexcept { return runtime_.fault(); }
  /// @pre usable(), as for all that follows
  Core& core() noexcept { return core_; }
  RuntimeDriver& runtime() noexcept { return runtime_; }
  /// Its blocks that are shared with other processes.
  Exports& exports() noexcept { return exports_; }

  /// The streams whose memory comes from private pools of PyTorch's.
  const PrivatePools& pools() const noexcept { return pools_; }
  /// @pre called on the thread, and with the current stream, that PyTorch directs to the pool
  void begin_pool(c10::MempoolId_t pool, PrivatePools::Filter filter);
  void end_pool(c10::MempoolId_t pool);

  /// Gives `peer` access to the memory. False when that failed.
  bool add_peer(int peer);

  /// Limits the core to this share of the device's memory; 1: no limit.
  void set_fraction(double fraction);
  double fraction() const noexcept { return fraction_; }

  /// Gives idle memory to the driver, after a request of PyTorch's own allocator failed; while
  /// paused too, unless the calling thread captures. Returns the bytes given.
  std::size_t give_way();

  /// Whether completed frees go to the history: only while it is watched.
  void tell_history(bool whether);

  /// The figures from which accumulated ones count.
  Stats baseline() const;
  void reset_accumulated();

 private:
  void add_to_history(History::TraceEntry::Action action, Address address, std::size_t bytes,
                      Stream stream) noexcept;
  void changed(WatchedDriver::Change change, Address address, std::size_t bytes) noexcept;

  const int index_;
  AddressRanges& ranges_;
  History& history_;
  RuntimeDriver runtime_;
  WatchedDriver watched_;
  Core core_;
  Exports exports_{core_, runtime_};
  PrivatePools pools_;
  double fraction_ = 1;
  mutable std::mutex baseline_mutex_;
  Stats baseline_;
};

}  // namespace cinch::allocator
