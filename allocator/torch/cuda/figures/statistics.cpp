// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/figures/statistics.h"

#include <algorithm>

namespace cinch::allocator {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

std::int64_t number(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

// One figure. `added_before` and `current_before`: at the last reset of accumulated figures.
Stat stat(std::size_t current, std::size_t peak, std::uint64_t added, std::uint64_t added_before,
          std::size_t current_before) {
  Stat result;
  result.current = number(current);
  result.peak = number(peak);
  result.allocated = number(added - added_before);
  result.freed = number(added - current) - number(added_before - current_before);
  return result;
}

Stat stat(const Gauge& now, const Gauge& before) {
  return stat(now.current, now.peak, now.added, before.added, before.current);
}

Stat& of(StatArray& array, StatType type) {
  return array[static_cast<std::size_t>(type)];
}

// The small pool, the large one, and both together, whose peak is `peak`.
StatArray array(const Stats& now, const Stats& before, Gauge PoolStats::*gauge, std::size_t peak) {
  StatArray result;
  Stat& all = of(result, StatType::AGGREGATE);
  for (std::size_t pool = 0; pool < 2; ++pool) {
    Stat& part = of(result, pool == 0 ? StatType::SMALL_POOL : StatType::LARGE_POOL);
    part = stat(now.pools[pool].*gauge, before.pools[pool].*gauge);
    all.current += part.current;
    all.allocated += part.allocated;
    all.freed += part.freed;
  }
  all.peak = number(peak);
  return result;
}

// Used plus pending blocks: a freed block counts as freed when other streams are done with it.
StatArray active(StatArray used, const Stats& now, const Stats& before,
                 std::size_t PoolStats::*pending, std::size_t PoolStats::*peak,
                 std::size_t peak_of_all) {
  Stat& all = of(used, StatType::AGGREGATE);
  for (std::size_t pool = 0; pool < 2; ++pool) {
    Stat& part = of(used, pool == 0 ? StatType::SMALL_POOL : StatType::LARGE_POOL);
    const std::int64_t waiting = number(now.pools[pool].*pending);
    const std::int64_t change = waiting - number(before.pools[pool].*pending);
    part.current += waiting;
    part.freed -= change;
    part.peak = number(now.pools[pool].*peak);
    all.current += waiting;
    all.freed -= change;
  }
  all.peak = number(peak_of_all);
  return used;
}

void add(Stat& ours, const Stat& native) {
  ours.peak = std::max(ours.peak + native.current, native.peak + ours.current);
  ours.current += native.current;
  ours.allocated += native.allocated;
  ours.freed += native.freed;
}

void add(StatArray& ours, const StatArray& native) {
  for (std::size_t type = 0; type < ours.size(); ++type) add(ours[type], native[type]);
}

}  // namespace

c10::CachingDeviceAllocator::DeviceStats device_stats(
    const Stats& now, const Stats& baseline,
    const c10::CachingDeviceAllocator::DeviceStats& native) {
  c10::CachingDeviceAllocator::DeviceStats result = native;
  const StatArray blocks = array(now, baseline, &PoolStats::blocks, now.peak_used_blocks);
  const StatArray bytes = array(now, baseline, &PoolStats::allocated, now.peak_allocated);
  const auto join = [](StatArray ours, StatArray& all) {
    add(ours, all);
    all = ours;
  };
  join(blocks, result.allocation);
  join(bytes, result.allocated_bytes);
  join(array(now, baseline, &PoolStats::requested, now.peak_requested), result.requested_bytes);
  join(array(now, baseline, &PoolStats::handles, now.peak_handles), result.segment);
  join(array(now, baseline, &PoolStats::reserved, now.peak_reserved), result.reserved_bytes);
  join(active(blocks, now, baseline, &PoolStats::pending_blocks, &PoolStats::peak_active_blocks,
              now.peak_active_blocks),
       result.active);
  join(active(bytes, now, baseline, &PoolStats::pending, &PoolStats::peak_active, now.peak_active),
       result.active_bytes);
  result.num_alloc_retries += number(now.retries - baseline.retries);
  result.num_ooms += number(now.failures - baseline.failures);
  result.num_sync_all_streams += number(now.host_waits - baseline.host_waits);
  result.num_device_alloc += number(now.created - baseline.created);
  result.num_device_free += number(now.released - baseline.released);
  return result;
}

}  // namespace cinch::allocator
