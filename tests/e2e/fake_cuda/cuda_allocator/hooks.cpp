// SPDX-License-Identifier: Apache-2.0
//
// A trace tracker as NCCL's registration of tensors is one: for programs of the tests. Keeps the
// segments that it was told of, and counts what does not fit together.
#include <cstdint>
#include <map>
#include <mutex>

#include <c10/cuda/CUDACachingAllocator.h>

#define E2E_API extern "C" __attribute__((visibility("default")))

namespace {

using Entry = c10::CachingDeviceAllocator::TraceEntry;

std::mutex mutex;
std::map<std::uintptr_t, std::size_t> segments;
long long bytes = 0;
long long blocks = 0;
long long wrong = 0;

void map_segment(std::uintptr_t address, std::size_t size) {
  const auto next = segments.lower_bound(address);
  if (next != segments.end() && next->first < address + size) ++wrong;
  segments[address] = size;
  bytes += static_cast<long long>(size);
}

// An expandable segment grows handle by handle and goes the same way, or several at a time.
void unmap_segment(std::uintptr_t address, std::size_t size) {
  const std::uintptr_t end = address + size;
  while (address < end) {
    const auto at = segments.find(address);
    if (at == segments.end()) {
      ++wrong;
      return;
    }
    address += at->second;
    bytes -= static_cast<long long>(at->second);
    segments.erase(at);
  }
  if (address != end) ++wrong;
}

void track(const Entry& entry) {
  const std::lock_guard lock(mutex);
  const auto address = static_cast<std::uintptr_t>(entry.addr_);
  switch (entry.action_) {
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP:
      return map_segment(address, entry.size_);
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      return unmap_segment(address, entry.size_);
    case Entry::ALLOC:
      ++blocks;
      return;
    case Entry::FREE_COMPLETED:
      --blocks;
      return;
    default:
      return;
  }
}

}  // namespace

E2E_API void e2e_attach() {
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(track);
}
/// Bytes of the segments there are.
E2E_API long long e2e_mapped() {
  const std::lock_guard lock(mutex);
  return bytes;
}
/// Blocks whose free is not complete.
E2E_API long long e2e_blocks() {
  const std::lock_guard lock(mutex);
  return blocks;
}
E2E_API long long e2e_wrong() {
  const std::lock_guard lock(mutex);
  return wrong;
}
