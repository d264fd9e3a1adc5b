// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/fake_driver.h"
#include "tools/replay/trace.h"

namespace cinch::allocator {

/// An allocator under replay, on a fake device.
class Subject {
 public:
  virtual ~Subject() = default;
  /// Returns a name for the block, or 0 when there is no memory.
  virtual std::uint64_t allocate(std::size_t bytes, std::uint32_t stream) = 0;
  virtual void free(std::uint64_t block) = 0;
  virtual void record_stream(std::uint64_t block, std::uint32_t stream) = 0;
};

/// Cinch's allocator.
std::unique_ptr<Subject> cinch_subject(FakeDriver& device);
/// A model of PyTorch's native caching allocator: best fit in segments of cudaMalloc (2 MiB for
/// requests up to 1 MiB, 20 MiB below 10 MiB, else the request's own size), split when more than 1
/// MiB is left, cached segments freed when cudaMalloc fails.
std::unique_ptr<Subject> native_subject(FakeDriver& device);
/// A model of PyTorch's expandable segments: one growing range of addresses for each stream and
/// size class, mapped in pages of 2 or 20 MiB, which are unmapped when memory runs out.
std::unique_ptr<Subject> expandable_subject(FakeDriver& device);

/// Result of a replay.
struct Outcome {
  std::string allocator;
  std::size_t peak_allocated = 0;  ///< by the trace, without the refused allocations
  std::size_t peak_reserved = 0;
  std::uint64_t memory_calls = 0;        ///< driver calls, without those for events
  std::uint64_t calls_in_last_step = 0;  ///< of these
  /// Driver calls for events: blocks that several streams use cost some, and so do questions
  /// whether the device is done.
  std::uint64_t event_calls = 0;
  std::uint64_t host_waits = 0;  ///< times the host waited for the device
  std::uint64_t refused = 0;     ///< allocations that found no memory
  double seconds = 0;            ///< in the allocator, the fake driver included

  /// 1 - peak allocated / peak reserved.
  double fragmentation() const noexcept {
    return peak_reserved == 0
               ? 0
               : 1 - static_cast<double>(peak_allocated) / static_cast<double>(peak_reserved);
  }
};

/// Runs the three allocators in turn, each on its own device of `memory` bytes. With a `lag` the
/// device lags behind the host: what it does is done so many operations of the trace later, counted
/// in mean steps of the trace (Trace::operations_per_step). 0: at once.
std::vector<Outcome> replay(const Trace& trace, std::size_t memory, double lag = 0);

}  // namespace cinch::allocator
