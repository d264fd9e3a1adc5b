// SPDX-License-Identifier: Apache-2.0
// The core's figures, breakdown, snapshot and invariants.
#include <algorithm>
#include <map>
#include <utility>

#include "allocator/core.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t most_holders = 8;

/// Sums over blocks, for comparing with what the core has counted.
struct Tally {
  std::size_t used = 0;  // bytes, as `requested`, `quick` and `pending`
  std::size_t requested = 0;
  std::size_t used_blocks = 0;
  std::size_t quick = 0;
  std::size_t quick_blocks = 0;
  std::size_t pending = 0;
  std::size_t waits = 0;
  std::size_t in_front = 0;  // blocks

  void add(const Block& block) noexcept {
    for (const Wait* w = block.waits; w != nullptr; w = w->next) ++waits;
    if (block.in_front) ++in_front;
    if (block.state == State::used) {
      used += block.bytes;
      requested += block.requested;
      ++used_blocks;
    } else if (block.state == State::quick) {
      quick += block.bytes;
      ++quick_blocks;
    } else if (block.state == State::pending) {
      pending += block.bytes;
    }
  }
};

}  // namespace

// The core's figures, corrected for the blocks in fronts.
Stats Core::counts() const noexcept {
  Stats stats = counts_;
  stats.quick = quick_bytes_;
  if (!fronts_.ever_open()) return stats;
  const Fronts::Account account = fronts_.account();
  stats.frees += account.given;
  for (std::size_t i = 0; i < account.pools.size(); ++i) {
    const Fronts::Account::Pool& front = account.pools[i];
    stats.allocations += front.taken;
    stats.fronted += front.taken;
    stats.used_blocks -= front.blocks;
    stats.allocated -= front.bytes;
    stats.requested += front.change - front.requested;
    stats.quick += front.bytes;
    PoolStats& pool = stats.pools[i];
    pool.blocks.current -= front.blocks;
    pool.blocks.added += front.taken;
    pool.allocated.current -= front.bytes;
    pool.allocated.added += front.taken_bytes;
    pool.requested.current += front.change - front.requested;
    pool.requested.added += front.taken_requested;
    pool.requested.peak = std::max(pool.requested.peak, pool.requested.current);
  }
  stats.peak_requested = std::max(stats.peak_requested, stats.requested);
  return stats;
}

Stats Core::stats() const {
  const std::lock_guard lock(lock_);
  const Fronts::Stopped stopped(fronts_);
  Stats stats = counts();
  const Space::Counters& space = space_.counters();
  stats.reserved = space.reserved;
  stats.peak_reserved = space.peak_reserved;
  stats.pending = pending_bytes_;
  stats.unmapped = space.unmapped;
  stats.stitches = space.stitches;
  stats.moved_bytes = space.moved_bytes;
  stats.moved_early_bytes = space.moved_early_bytes;
  stats.leaving = space.leaving.current;
  stats.peak_leaving = space.leaving.peak;
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
  // Peaks begin anew with used memory. Blocks in fronts would count as used: drain them.
  for (std::uint32_t i = 0; i < order_.stream_count(); ++i) drain_fronts(i);
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
  const Fronts::Stopped stopped(fronts_);
  driver_.memory_info(driver_.self, &result.device_free, &result.device_total);
  result.limit = space_.limit();
  const Space::Counters& space = space_.counters();
  result.reserved = space.reserved;
  result.unmapped = space.unmapped;
  result.stuck = space.stuck;
  const Stats figures = counts();
  result.allocated = figures.allocated;
  result.requested = figures.requested;
  result.pending = pending_bytes_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::size_t> holders;
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      const State state = state_of(b);
      if (state == State::free || state == State::quick) {
        result.free += b->bytes;
        result.largest = std::max(result.largest, b->bytes);
      } else if (state == State::used) {
        ++holders[{b->bytes, b->tag}];
      }
    }
    const std::size_t granularity = space_.granularity();
    for (std::size_t i = 0; i < region->bytes / granularity; ++i) {
      const Unit& unit = region->units[i];
      const Address at = region->address + i * granularity;
      // Old mappings are of handles that are counted where they are used.
      if (unit.physical == nullptr || at - unit.physical->address >= unit.physical->bytes) continue;
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
  const Fronts::Stopped stopped(fronts_);
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      if (b->state == State::hole || b->state == State::leaving) continue;
      blocks.push_back(info(b));
      if (blocks.back().state != State::used) blocks.back().requested = 0;
    }
  }
  return blocks;
}

// Null, or what is wrong with the block by itself.
const char* Core::fault_of(const Block& block) const noexcept {
  const bool in_table = block.state == State::used || block.state == State::quick;
  if ((table_.find(block.address) == &block) != in_table) return "table and blocks differ";
  if (block.waits != nullptr && block.state != State::used && block.state != State::pending) {
    return "a block that is not used waits";
  }
  if (block.in_front && block.state != State::used) {
    return "a block that is not used waits in a front";
  }
  if (block.state == State::used && block.requested > block.bytes) {
    return "a block smaller than what was asked for";
  }
  return nullptr;
}

bool Core::verify(std::string& fault) const {
  const std::lock_guard lock(lock_);
  const Fronts::Stopped stopped(fronts_);
  if (!space_.verify(fault)) return false;
  const auto wrong = [&fault](const char* what) {
    fault = what;
    return false;
  };
  Tally tally;
  for (const auto& region : space_.regions()) {
    for (const Block* b = region->first; b != nullptr; b = b->next) {
      if (const char* what = fault_of(*b)) return wrong(what);
      tally.add(*b);
    }
  }
  const Fronts::Account account = fronts_.account();
  if (!fronts_.verify()) return wrong("a front's blocks");
  if (tally.in_front != account.pools[0].blocks + account.pools[1].blocks) {
    return wrong("blocks in fronts lost");
  }
  const std::size_t change = account.pools[0].change + account.pools[1].change;
  if (tally.used != counts_.allocated || tally.requested != counts_.requested + change ||
      tally.used_blocks != counts_.used_blocks) {
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
  if (pool_bytes != tally.used || pool_requested + change != tally.requested ||
      pool_blocks != tally.used_blocks || pool_pending != tally.pending) {
    return wrong("a pool's figures differ");
  }
  if (tally.quick != quick_bytes_ || tally.pending != pending_bytes_)
    return wrong("idle bytes not conserved");
  std::size_t listed = 0;
  for (const BlockList& list : pending_) {
    for (const Block* b = list.first(); b != nullptr; b = b->quick_next) listed += b->bytes;
  }
  if (listed != pending_bytes_) return wrong("a pending block is in no list");
  if (table_.size() != tally.used_blocks + tally.quick_blocks) return wrong("table's size");
  if (tally.waits != order_.waits()) return wrong("waits lost");
  return true;
}

}  // namespace cinch::allocator
