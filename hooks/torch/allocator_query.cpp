// SPDX-License-Identifier: Apache-2.0
//
// A query for tests and tools: the figures of the host allocator.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "allocator/torch/host_allocator.h"

// Writes the host allocator's figures as JSON ("null" if it is not installed) to `buffer` of
// `capacity` bytes, zero-terminated and truncated if they do not fit. Returns the length of the
// whole text without the zero.
extern "C" __attribute__((visibility("default"))) std::size_t cinch_host_allocator_json(
    char* buffer, std::size_t capacity) {
  using cinch::allocator::Stats;
  char text[512] = "null";
  if (const cinch::allocator::Core* core = cinch::allocator::host_core(); core != nullptr) {
    const Stats s = core->stats();
    std::snprintf(
        text, sizeof text,
        R"({"allocated": %zu, "peak_allocated": %zu, "reserved": %zu, )"
        R"("peak_reserved": %zu, "used_blocks": %zu, "allocations": %llu, )"
        R"("misses": %llu, "stitches": %llu, "moved_bytes": %llu, "failures": %llu})",
        s.allocated, s.peak_allocated, s.reserved, s.peak_reserved, s.used_blocks,
        static_cast<unsigned long long>(s.allocations), static_cast<unsigned long long>(s.misses),
        static_cast<unsigned long long>(s.stitches), static_cast<unsigned long long>(s.moved_bytes),
        static_cast<unsigned long long>(s.failures));
  }
  const std::size_t size = std::strlen(text);
  if (capacity != 0) {
    const std::size_t n = std::min(size, capacity - 1);
    std::memcpy(buffer, text, n);
    buffer[n] = '\0';
  }
  return size;
}
