// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "allocator/driver.h"

namespace cinch::allocator {

/// The host's memory: addresses without access are reserved by mmap, pages come from the kernel
/// when they are first written to, huge ones where it has them (madvise).
///
/// Pages stay where they are when a handle is unmapped, and move only when the handle is mapped
/// elsewhere: by mremap, which copies nothing. Mapping a handle where another one left its pages
/// swaps the two, since contents of a handle are promised to nobody. Releasing a handle gives its
/// pages to the kernel. Linux only. Thread-safe.
class HostDriver {
 public:
  HostDriver() = default;
  HostDriver(const HostDriver&) = delete;
  HostDriver& operator=(const HostDriver&) = delete;

  Driver table() noexcept;

  /// Huge pages' size on the machines that we know; handles are multiples of it.
  static constexpr std::size_t granularity = std::size_t{2} << 20;

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Pages {
    std::size_t bytes = 0;
    Address home = 0;  // where its pages are; 0: it has none
    bool mapped = false;
  };
  struct Calls;

  void drop_pages(Pages& pages) noexcept;
  void vacate(Address address, std::size_t bytes) noexcept;

  std::mutex mutex_;
  std::vector<Pages> handles_;  // handle h is handles_[h - 1]
  std::vector<Handle> unused_;
  std::map<Address, Handle> parked_;  // pages of handles that are not mapped, by home
};

}  // namespace cinch::allocator
