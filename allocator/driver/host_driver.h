// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// The driver for host memory. Addresses are reserved by mmap without access. The kernel supplies
/// pages when they are first written to, huge ones where it can (madvise).
///
/// unmap leaves a handle's pages where they are. They move only when the handle is mapped
/// elsewhere, by mremap without a copy. Mapping a handle where another one left its pages swaps the
/// two, since nobody relies on the contents of a handle. release gives the pages to the kernel.
/// Linux only. Thread-safe.
class HostDriver {
 public:
  HostDriver() = default;
  HostDriver(const HostDriver&) = delete;
  HostDriver& operator=(const HostDriver&) = delete;

  Driver table() noexcept;

  /// Size of huge pages on the machines that we know; handles are multiples of it.
  static constexpr std::size_t granularity = std::size_t{2} << 20;

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Pages {
    std::size_t bytes = 0;
    Address home = 0;  // address of its pages; 0: it has none
    bool mapped = false;
  };
  struct Calls;

  void drop_pages(Pages& pages) noexcept;
  void vacate(Address address, std::size_t bytes) noexcept;

  std::mutex mutex_;
  std::vector<Pages> handles_;  // handle h is handles_[h - 1]
  std::vector<Handle> unused_;
  std::map<Address, Handle> parked_;  // unmapped handles that have pages, by home
};

}  // namespace cinch::allocator
