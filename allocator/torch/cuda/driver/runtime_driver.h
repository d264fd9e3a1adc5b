// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// The driver for an NVIDIA GPU. Streams, events and contexts are those of the CUDA runtime that
/// PyTorch uses. Virtual memory is the CUDA driver's, whose functions come from that runtime
/// (cudaGetDriverEntryPoint), as for PyTorch. So a replacement of the runtime, such as the tests'
/// fake, replaces both.
///
/// Every call is made with the device's context current, makes none on another device, and leaves
/// no error of its own behind that a later cudaGetLastError would find. Thread-safe.
class RuntimeDriver {
 public:
  /// Finds the functions and makes the device's context, as any use of the device does. `fault`
  /// says why it is not `usable`.
  explicit RuntimeDriver(int device);
  RuntimeDriver(const RuntimeDriver&) = delete;
  RuntimeDriver& operator=(const RuntimeDriver&) = delete;

  bool usable() const noexcept { return usable_; }
  const std::string& fault() const noexcept { return fault_; }

  /// Later calls of `set_access` give `peer` access too. The caller must ask again for what is
  /// mapped already (Core::renew_access).
  void add_peer(int peer) noexcept { peers_.fetch_or(std::uint64_t{1} << peer); }

  /// @pre usable()
  Driver table() noexcept;

  /// A file descriptor (close-on-exec; the caller closes it) by which another process can import
  /// the handle; -1 when the driver can't make one, or not for this device's memory. @pre usable()
  int export_handle(Handle handle);
  /// Makes a handle to another process's memory, to be released like one of ours. The caller keeps
  /// the descriptor. @pre usable()
  Status import_handle(int descriptor, Handle* handle);
  /// Blocks the host until the device is idle; false when that is not possible, as in a capture.
  bool synchronize();

  /// Devices beyond it are not served.
  static constexpr int most_devices = 64;

 private:
  struct Calls;

  int device_;
  void* context_ = nullptr;              // the device's primary context, a CUcontext
  std::atomic<std::uint64_t> peers_{0};  // one bit for each device
  unsigned extras_ = 0;  // what memory is asked to do besides; see runtime_driver.cpp
  std::size_t granularity_ = 0;
  bool usable_ = false;
  std::string fault_;
};

}  // namespace cinch::allocator
