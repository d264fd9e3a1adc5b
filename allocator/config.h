// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::allocator {

inline constexpr std::size_t kibibyte = std::size_t{1} << 10;
inline constexpr std::size_t mebibyte = std::size_t{1} << 20;
inline constexpr std::size_t gibibyte = std::size_t{1} << 30;

/// How an allocator divides memory. Sizes in bytes; all but `limit` are multiples of `quantum`.
struct Config {
  /// Sizes and addresses of blocks are multiples of it; a power of two. 512 is what PyTorch
  /// promises on CUDA.
  std::size_t quantum = 512;
  /// Requests up to this come from small pages, so that they do not pin large ones. 0: there are
  /// none.
  std::size_t small_limit = 1 * mebibyte;
  /// Blocks up to this are kept by exact size when freed, uncoalesced: the fast path. At most
  /// `small_limit`; 0: none.
  std::size_t quick_limit = 64 * kibibyte;
  /// Blocks up to this may be kept in a front of their stream while threads keep each other waiting
  /// (Fronts): larger ones are not asked for so often. 0: there are no fronts.
  std::size_t front_limit = 4 * mebibyte;
  /// What a front keeps at most.
  std::size_t front_bytes = 16 * mebibyte;
  /// Whether they are kept also while nobody waits; for tests.
  bool front_always = false;
  /// Physical handles for small blocks.
  std::size_t small_page = 2 * mebibyte;
  /// Physical handles for large blocks grow with what is reserved, from `least_large_page` to
  /// `large_page`: a driver call costs per handle, and what the last handle has too much is idle.
  std::size_t large_page = 20 * mebibyte;
  std::size_t least_large_page = 2 * mebibyte;
  /// A new large handle is about this share of what is reserved.
  std::size_t large_page_share = 64;
  /// Addresses reserved at a time; 0: twice the driver's memory.
  std::size_t region_bytes = 0;
  /// Physical memory never exceeds it.
  std::size_t limit = SIZE_MAX;
  /// Idle memory beyond what was in use at once during this time, or the same time before, is given
  /// back. Nanoseconds; 0: never by itself.
  std::uint64_t idle_period = 0;
  /// Idle memory is given back before new memory is created when the driver has less than this
  /// left. 0: never asked.
  std::size_t pressure = 0;

  /// For CUDA devices.
  static Config device() { return {}; }

  /// For the host: blocks are pages, handles are huge pages, and nothing is small, since the C
  /// library serves what is. So few requests come that threads do not meet.
  static Config host() {
    Config config;
    config.quantum = 4 * kibibyte;
    config.small_limit = 0;
    config.quick_limit = 0;
    config.front_limit = 0;
    config.large_page = 2 * mebibyte;
    config.region_bytes = 64 * gibibyte;
    config.idle_period = 60'000'000'000;  // a step on a CPU may take tens of seconds
    config.pressure = 1 * gibibyte;
    return config;
  }
};

}  // namespace cinch::allocator
