// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "allocator/driver.h"

namespace cinch::allocator {

/// An NVIDIA GPU through the CUDA runtime that PyTorch uses: streams, events and contexts are the
/// runtime's; virtual memory is the driver's, whose functions the runtime hands out
/// (cudaGetDriverEntryPoint), as it does to PyTorch. So whatever stands in for the runtime, such as
/// the tests' fake, stands in for both.
///
/// Every call is made with the device current, and leaves no error behind that a later
/// cudaGetLastError would find. Thread-safe.
class RuntimeDriver {
 public:
  /// Finds the functions; makes the device's context, as any use of the device does. `fault` says
  /// why it is not `usable`.
  explicit RuntimeDriver(int device);
  RuntimeDriver(const RuntimeDriver&) = delete;
  RuntimeDriver& operator=(const RuntimeDriver&) = delete;

  bool usable() const noexcept { return usable_; }
  const std::string& fault() const noexcept { return fault_; }

  /// From now on `set_access` gives `peer` access too. What is mapped already is the caller's to
  /// ask for again (Core::renew_access).
  void add_peer(int peer) noexcept { peers_.fetch_or(std::uint64_t{1} << peer); }

  /// @pre usable()
  Driver table() noexcept;

  /// A file descriptor (close-on-exec, the caller's) for which another process gets the handle's
  /// memory; -1 when the driver has none, or none for this device's memory. @pre usable()
  int export_handle(Handle handle);
  /// A handle to another process's memory, to be released like one of ours. The descriptor stays
  /// the caller's. @pre usable()
  Status import_handle(int descriptor, Handle* handle);
  /// The host waits for the device; false when that is not possible, as during a capture.
  bool synchronize();

  /// Devices beyond it are not served.
  static constexpr int most_devices = 64;

 private:
  struct Calls;

  int device_;
  std::atomic<std::uint64_t> peers_{0};  // by bit
  std::size_t granularity_ = 0;
  bool usable_ = false;
  std::string fault_;
};

}  // namespace cinch::allocator
