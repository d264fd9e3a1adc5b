// SPDX-License-Identifier: Apache-2.0
// What the core says of itself: figures, blocks, and whether all of it adds up.
#include <algorithm>
#include <map>
#include <utility>

#include "allocator/core.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t most_holders = 8;

}  // namespace

Stats Core::stats() const {
  const std::lock_guard lock(lock_);
  Stats stats = counts_;
  const Space::Counters& space = space_.counters();
  stats.reserved = space.reserved;
  stats.peak_reserved = space.peak_reserved;
  stats.pending = pending_bytes_;
  stats.quick = quick_bytes_;
  stats.unmapped = space.unmapped;
  stats.stitches = space.stitches;
  stats.moved_bytes = space.moved_bytes;
  stats.driver_errors = space.failures;
  stats.created = space.created;
  stats.released = space.released;
  stats.peak_handles = space.peak_handles;
  stats.peak_active = std::max(stats.peak_active, stats.peak_allocated);
  stats.peak_active_blocks = std::max(stats.peak_active_blocks, stats.peak_used_blocks);
  for (const std::size_t pool : {Space::small, Space::large}) {
    PoolStats& figures = stats.pools[pool];
    figures.handles = space.handles_in[pool];
    figures.reserved = space.reserved_in[pool];
    figures.peak_active = std::max(figures.peak_active, figures.allocated.peak);
    figures.peak_active_blocks = std::max(figures.peak_active_blocks, figures.blocks.peak);
  }
  return stats;
}

void Core::reset_peaks() {
  const std::lock_guard lock(lock_);
  counts_.peak_allocated = counts_.allocated;
  counts_.peak_requested = counts_.requested;
  counts_.peak_used_blocks = counts_.used_blocks;
  counts_.peak_active = 0;
  counts_.peak_active_blocks = 0;
  for (PoolStats& pool : counts_.pools) {
    pool.blocks.reset_peak();
    pool.allocated.reset_peak();
    pool.requested.reset_peak();
    pool.peak_active = 0;
    pool.peak_active_blocks = 0;
  }
  note_active();
  space_.reset_peaks();
}

Breakdown Core::breakdown() const {
  Breakdown result;
  const std::lock_guard lock(lock_);
  driver_.memory_info(driver_.self, &result.device_free, &result.device_total);
  result.limit = space_.limit();
  const Space::Counters& space = space_.counters();
  result.reserved = space.reserved;
  result.unmapped = space.unmapped;
  result.stuck = space.stuck;
  result.allocated = counts_.allocated;
  result.requested = counts_.requested;
  result.pending = pending_bytes_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::size_t> holders;
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      if (b->state == State::free || b->state == State::quick) {
        result.free += b->bytes;
        result.largest = std::max(result.largest, b->bytes);
      } else if (b->state == State::used) {
        ++holders[{b->bytes, b->tag}];
      }
    }
    const std::size_t granularity = space_.granularity();
    for (std::size_t i = 0; i < region->bytes / granularity; ++i) {
      const Unit& unit = region->units[i];
      if (unit.physical == nullptr) continue;
      if (unit.physical->moved) result.stitched += granularity;
      if (unit.pins != 0) result.pinned += granularity;
    }
  }
  for (const auto& [key, count] : holders) {
    result.holders.push_back({key.first, count, key.second});
  }
  std::ranges::stable_sort(result.holders, [](const auto& a, const auto& b) {
    return a.bytes * a.count > b.bytes * b.count;
  });
  if (result.holders.size() > most_holders) result.holders.resize(most_holders);
  return result;
}

std::optional<Core::BlockInfo> Core::find(Address address) const {
  const std::lock_guard lock(lock_);
  const Block* block = used_block(address);
  return block == nullptr ? std::nullopt : std::optional(info(block));
}

std::vector<Core::BlockInfo> Core::snapshot() const {
  std::vector<BlockInfo> blocks;
  const std::lock_guard lock(lock_);
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      if (b->state == State::hole) continue;
      blocks.push_back(info(b));
      if (b->state != State::used) blocks.back().requested = 0;
    }
  }
  return blocks;
}

bool Core::verify(std::string& fault) const {
  const std::lock_guard lock(lock_);
  if (!space_.verify(fault)) return false;
  std::size_t used = 0;
  std::size_t requested = 0;
  std::size_t used_blocks = 0;
  std::size_t quick = 0;
  std::size_t quick_blocks = 0;
  std::size_t pending = 0;
  std::size_t waits = 0;
  const auto wrong = [&fault](const char* what) {
    fault = what;
    return false;
  };
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      for (const Wait* w = b->waits; w != nullptr; w = w->next) ++waits;
      const bool in_table = b->state == State::used || b->state == State::quick;
      if ((table_.find(b->address) == b) != in_table) return wrong("table and blocks differ");
      if (b->waits != nullptr && b->state != State::used && b->state != State::pending) {
        return wrong("a block that is not used waits");
      }
      if (b->state == State::used) {
        used += b->bytes;
        requested += b->requested;
        ++used_blocks;
        if (b->requested > b->bytes) return wrong("a block smaller than what was asked for");
      } else if (b->state == State::quick) {
        quick += b->bytes;
        ++quick_blocks;
      } else if (b->state == State::pending) {
        pending += b->bytes;
      }
    }
  }
  if (used != counts_.allocated || requested != counts_.requested ||
      used_blocks != counts_.used_blocks) {
    return wrong("used bytes not conserved");
  }
  std::size_t pool_bytes = 0;
  std::size_t pool_requested = 0;
  std::size_t pool_blocks = 0;
  std::size_t pool_pending = 0;
  for (const PoolStats& pool : counts_.pools) {
    pool_bytes += pool.allocated.current;
    pool_requested += pool.requested.current;
    pool_blocks += pool.blocks.current;
    pool_pending += pool.pending;
  }
  if (pool_bytes != used || pool_requested != requested || pool_blocks != used_blocks ||
      pool_pending != pending) {
    return wrong("a pool's figures differ");
  }
  if (quick != quick_bytes_ || pending != pending_bytes_) return wrong("idle bytes not conserved");
  if (table_.size() != used_blocks + quick_blocks) return wrong("table's size");
  if (waits != order_.waits()) return wrong("waits lost");
  return true;
}

}  // namespace cinch::allocator
