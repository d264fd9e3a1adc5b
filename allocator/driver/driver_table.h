// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// The host's monotonic clock. Nanoseconds.
inline std::uint64_t monotonic_nanoseconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// Converts an address to a pointer, for backends in host memory.
inline void* to_pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Sets every function of `table` to the static member of `Calls` with the same name. A missing
/// member is a compile error.
template <class Calls>
void set_calls(Driver& table) noexcept {
  table.reserve = Calls::reserve;
  table.unreserve = Calls::unreserve;
  table.create = Calls::create;
  table.release = Calls::release;
  table.map = Calls::map;
  table.unmap = Calls::unmap;
  table.set_access = Calls::set_access;
  table.memory_info = Calls::memory_info;
  table.event_create = Calls::event_create;
  table.event_destroy = Calls::event_destroy;
  table.event_record = Calls::event_record;
  table.event_query = Calls::event_query;
  table.event_synchronize = Calls::event_synchronize;
  table.stream_wait = Calls::stream_wait;
  table.now = Calls::now;
}

}  // namespace cinch::allocator
