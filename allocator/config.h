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
  /// Block sizes and addresses are multiples of this; a power of two. PyTorch promises 512 on CUDA.
  std::size_t quantum = 512;
  /// Requests up to this come from small handles, so that they do not keep large ones in use. 0: no
  /// small handles.
  std::size_t small_limit = 1 * mebibyte;
  /// Freed blocks up to this are kept in lists by exact size and not coalesced: the fast path. At
  /// most `small_limit`; 0: no such lists.
  std::size_t quick_limit = 64 * kibibyte;
  /// Freed blocks up to this may go to a front of their stream while threads contend for the lock
  /// (Fronts); larger blocks are requested too rarely. 0: no fronts.
  std::size_t front_limit = 4 * mebibyte;
  /// Most bytes that one front keeps.
  std::size_t front_bytes = 16 * mebibyte;
  /// Whether fronts are open without contention too; for tests.
  bool front_always = false;
  /// Size of physical handles for small blocks.
  std::size_t small_page = 2 * mebibyte;
  /// Size of physical handles for large blocks. It grows with the reserved memory, from
  /// `least_large_page` to `large_page`: each handle costs driver calls, but the unused part of the
  /// last handle is idle.
  std::size_t large_page = 20 * mebibyte;
  std::size_t least_large_page = 2 * mebibyte;
  /// A new large handle is about 1/`large_page_share` of the reserved memory.
  std::size_t large_page_share = 64;
  /// Addresses reserved at a time; 0: twice the driver's memory.
  std::size_t region_bytes = 0;
  /// Upper bound of the reserved physical memory.
  std::size_t limit = SIZE_MAX;
  /// Memory beyond the peak use of this period and of the period before is given back. Nanoseconds;
  /// 0: only on request.
  std::uint64_t idle_period = 0;
  /// A period also ends after so many rounds of the program (Core::end_round), but not within
  /// `least_idle_period`: short steps would give back and take again too often.
  std::uint32_t idle_rounds = 8;
  std::uint64_t least_idle_period = 1'000'000'000;
  /// When the driver has less free memory than this, idle memory is given back before new memory is
  /// created. 0: the driver is not asked.
  std::size_t pressure = 0;

  /// For CUDA devices.
  static Config device() { return {}; }

  /// For the host: blocks are whole pages, handles are huge pages. No small blocks, since the C
  /// library serves those; no fronts, since requests are too rare for threads to contend.
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
