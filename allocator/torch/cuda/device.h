// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "allocator/core.h"
#include "allocator/torch/cuda/address_ranges.h"
#include "allocator/torch/cuda/exports.h"
#include "allocator/torch/cuda/history.h"
#include "allocator/torch/cuda/private_pools.h"
#include "allocator/torch/cuda/runtime_driver.h"
#include "allocator/torch/cuda/watched_driver.h"

namespace cinch::allocator {

/// One GPU: its core, over the runtime's driver, and what PyTorch has set for it. Where the core
/// can't run (`usable` is false) the device is PyTorch's own allocator's.
class Device {
 public:
  /// Makes the device's context. Both others outlive it.
  Device(int index, AddressRanges& ranges, History& history);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const noexcept { return index_; }
  bool usable() const noexcept { return runtime_.usable(); }
  const std::string& fault() const noexcept { return runtime_.fault(); }
  /// @pre usable(), as for all that follows
  Core& core() noexcept { return core_; }
  RuntimeDriver& runtime() noexcept { return runtime_; }
  /// Its blocks that other processes were told of.
  Exports& exports() noexcept { return exports_; }

  /// Whether memory for this stream is to come from a private pool of PyTorch's.
  const PrivatePools& pools() const noexcept { return pools_; }
  void begin_pool(c10::MempoolId_t pool, PrivatePools::Filter filter);
  void end_pool(c10::MempoolId_t pool);

  /// The memory may be used by `peer` too.
  bool add_peer(int peer);

  /// At most this share of the device's memory; 1: no limit.
  void set_fraction(double fraction);
  double fraction() const noexcept { return fraction_; }

  /// All that is idle goes to the driver: for PyTorch's own allocator, whose request failed. Also
  /// while paused, when the calling thread is not the one that captures. Returns bytes.
  std::size_t give_way();

  /// Whether completed frees go to the history: only while somebody wants to know.
  void tell_history(bool whether);

  /// What counts as 0 in accumulated figures.
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
