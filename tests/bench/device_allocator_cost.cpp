// SPDX-License-Identifier: Apache-2.0
//
// What a cached block of PyTorch's CUDA allocator, whichever is in place, costs the host. Loaded
// into a Python that has torch (tests/gpu/programs/allocator_cost.py).
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>

namespace {

double nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

}  // namespace

/// Median nanoseconds of allocating `bytes` on the current CUDA device and freeing them again, over
/// `pairs` of these after the first, less what reading the clock takes; -1 when an allocation
/// fails.
extern "C" [[gnu::visibility("default")]] double device_allocator_cost(std::size_t bytes,
                                                                       std::size_t pairs) try {
  using Clock = std::chrono::steady_clock;
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::CUDA);
  { const c10::DataPtr first = allocator->allocate(bytes); }
  std::vector<double> clock(pairs), both(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto start = Clock::now();
    clock[i] = nanoseconds(Clock::now() - start);
    const auto before = Clock::now();
    { const c10::DataPtr block = allocator->allocate(bytes); }
    both[i] = nanoseconds(Clock::now() - before);
  }
  const auto median = [pairs](std::vector<double>& samples) {
    const auto at = samples.begin() + static_cast<std::ptrdiff_t>(pairs / 2);
    std::nth_element(samples.begin(), at, samples.end());
    return *at;
  };
  return std::max(0.0, median(both) - median(clock));
} catch (const std::exception&) {
  return -1.0;
}
