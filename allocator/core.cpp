// SPDX-License-Identifier: Apache-2.0
#include "allocator/core.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

namespace cinch::allocator {
namespace {

// How often the stash is asked for one allocation.
constexpr int most_reclaims = 4;
// An idle period is looked at so many times.
constexpr std::uint64_t looks_per_period = 8;
// What may stay idle beyond the most that was used at once.
constexpr std::size_t idle_share = 32;

constexpr std::size_t most_holders = 8;

}  // namespace

Core::Core(const Driver& driver, const Config& config)
    : driver_(driver), config_(config), order_(driver), space_(driver, config, order_) {}

Core::~Core() = default;

Block* Core::used_block(Address address) const noexcept {
  Block* block = table_.find(address);
  return block != nullptr && block->state == State::used ? block : nullptr;
}

Block* Core::pop_quick(std::uint32_t stream, std::size_t bytes) noexcept {
  if (stream >= quick_.size()) return nullptr;
  Block*& head = quick_[stream].heads[bytes / config_.quantum];
  Block* block = head;
  if (block == nullptr) return nullptr;
  head = block->quick_next;
  block->quick_next = nullptr;
  block->state = State::used;
  quick_bytes_ -= block->bytes;
  return block;
}

bool Core::push_quick(Block* block) noexcept {
  if (block->bytes > config_.quick_limit) return false;
  if (block->stream >= quick_.size()) {
    try {
      while (quick_.size() <= block->stream) {
        quick_.push_back({std::make_unique<Block*[]>(config_.quick_limit / config_.quantum + 1)});
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  Block*& head = quick_[block->stream].heads[block->bytes / config_.quantum];
  block->quick_next = head;
  head = block;
  block->state = State::quick;
  quick_bytes_ += block->bytes;
  return true;
}

// Whether there was anything.
bool Core::flush_quick(std::uint32_t stream) noexcept {
  if (stream >= quick_.size()) return false;
  bool any = false;
  for (std::size_t i = 0; i <= config_.quick_limit / config_.quantum; ++i) {
    Block* block = std::exchange(quick_[stream].heads[i], nullptr);
    while (block != nullptr) {
      Block* next = std::exchange(block->quick_next, nullptr);
      quick_bytes_ -= block->bytes;
      table_.erase(block->address);
      block->stamp = order_.stamp(stream);
      space_.give(block);
      block = next;
      any = true;
    }
  }
  return any;
}

bool Core::flush_all_quick() noexcept {
  bool any = false;
  for (std::uint32_t stream = 0; stream < order_.stream_count(); ++stream) {
    any = flush_quick(stream) || any;
  }
  return any;
}

Block* Core::allocate_cached(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  Block* block = space_.fit(pool, stream, bytes);
  return block == nullptr ? nullptr : space_.take(block, bytes);
}

// Whether anything became free.
bool Core::settle_pending() noexcept {
  bool any = false;
  for (const std::size_t pool : {Space::small, Space::large}) {
    BlockTree& tree = space_.pool(pool).pending;
    for (auto at = tree.begin(); at != tree.end();) {
      Block* block = &*at;
      ++at;
      if (!order_.settle(block->waits)) continue;
      uncount_pending(block);
      complete(block, block->stream);
      block->stamp = order_.stamp(block->stream);
      space_.resume(block);
      any = true;
    }
  }
  return any;
}

// Of the stream's own blocks that others may still use: those are waited for on the device.
Block* Core::allocate_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  if (pending_bytes_ == 0 || !may_remap()) return nullptr;
  if (settle_pending()) {
    if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  }
  Block* block = space_.fit_pending(pool, stream, bytes);
  if (block == nullptr || !order_.wait_for(stream, block->waits)) return nullptr;
  uncount_pending(block);
  complete(block, stream);
  // A fence from before this wait says nothing about the other streams.
  block->stamp = order_.stamp(stream);
  return space_.take(block, bytes);
}

// Other streams' blocks: what this stream is given next comes after what those have been given.
Block* Core::allocate_foreign(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  if (!may_remap()) return nullptr;
  if (Block* block = space_.fit_foreign(pool, stream, bytes); block != nullptr) {
    if (order_.idle(block->stream, block->stamp) || order_.wait_for_stream(stream, block->stream)) {
      block = space_.take(block, bytes);
      block->stream = stream;
      ++counts_.foreign;
      return block;
    }
  }
  Block* block = space_.fit_foreign_pending(pool, stream, bytes);
  if (block == nullptr || !order_.wait_for_stream(stream, block->stream) ||
      !order_.wait_for(stream, block->waits)) {
    return nullptr;
  }
  uncount_pending(block);
  complete(block, stream);
  // Its other streams may still use the rest: only this one waits for them, so it gets all of it.
  block = space_.take(block, block->bytes);
  block->stream = stream;
  ++counts_.foreign;
  return block;
}

Block* Core::allocate_grown(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  using Donors = Space::Donors;
  // Other streams' memory only when the driver has no more: streams that take turns would take it
  // from each other for ever.
  if (space_.grow(pool, stream, bytes, may_remap() ? Donors::own_stream : Donors::none) !=
          Status::ok &&
      (!may_remap() || space_.grow(pool, stream, bytes, Donors::all) != Status::ok)) {
    return nullptr;
  }
  return allocate_cached(pool, stream, bytes);
}

// The host waits until the device has done all that frees and events depend on.
bool Core::finish_everything() noexcept {
  if (driver_.synchronous) return false;
  ++counts_.host_waits;
  bool all = true;
  for (const std::size_t pool : {Space::small, Space::large}) {
    for (Block& block : space_.pool(pool).pending) all = order_.finish(block.waits) && all;
  }
  settle_pending();
  for (std::uint32_t stream = 0; stream < order_.stream_count(); ++stream) {
    all = order_.finish(stream) && all;
  }
  return all;
}

Block* Core::allocate_at_any_price(std::size_t pool, std::uint32_t stream,
                                   std::size_t bytes) noexcept {
  ++counts_.retries;
  if (Block* block = allocate_foreign(pool, stream, bytes); block != nullptr) return block;
  if (!may_remap()) return nullptr;
  flush_all_quick();
  finish_everything();
  if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  if (Block* block = allocate_grown(pool, stream, bytes); block != nullptr) return block;
  if (Block* block = allocate_foreign(pool, stream, bytes); block != nullptr) return block;
  // Handles of other sizes, and addresses, may be what is missing.
  space_.release(SIZE_MAX, true);
  space_.release_regions();
  return allocate_grown(pool, stream, bytes);
}

Block* Core::allocate_slowly(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  ++counts_.misses;
  if (Block* block = allocate_pending(pool, stream, bytes); block != nullptr) return block;
  if (pool == Space::small && flush_quick(stream)) {
    if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  }
  heed_pressure();
  if (Block* block = allocate_grown(pool, stream, bytes); block != nullptr) return block;
  return allocate_at_any_price(pool, stream, bytes);
}

void Core::count_allocated(Block* block, std::size_t requested, std::uint64_t tag) noexcept {
  block->requested = requested;
  block->tag = tag;
  ++counts_.allocations;
  ++counts_.used_blocks;
  counts_.allocated += block->bytes;
  counts_.requested += requested;
  counts_.peak_used_blocks = std::max(counts_.peak_used_blocks, counts_.used_blocks);
  counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
  counts_.peak_requested = std::max(counts_.peak_requested, counts_.requested);
  PoolStats& pool = counts_.pools[block->region->pool];
  pool.blocks.add(1);
  pool.allocated.add(block->bytes);
  pool.requested.add(requested);
  if (pending_bytes_ != 0) note_active();
  most_used_now_ = std::max(most_used_now_, counts_.allocated);
}

void Core::count_pending(const Block* block) noexcept {
  PoolStats& pool = counts_.pools[block->region->pool];
  ++pool.pending_blocks;
  pool.pending += block->bytes;
  pending_bytes_ += block->bytes;
}

void Core::uncount_pending(const Block* block) noexcept {
  PoolStats& pool = counts_.pools[block->region->pool];
  --pool.pending_blocks;
  pool.pending -= block->bytes;
  pending_bytes_ -= block->bytes;
}

// Peaks of what is used or pending; while nothing is pending they are those of what is used.
void Core::note_active() noexcept {
  std::size_t bytes = 0;
  std::size_t blocks = 0;
  for (PoolStats& pool : counts_.pools) {
    const std::size_t pool_bytes = pool.allocated.current + pool.pending;
    const std::size_t pool_blocks = pool.blocks.current + pool.pending_blocks;
    pool.peak_active = std::max(pool.peak_active, pool_bytes);
    pool.peak_active_blocks = std::max(pool.peak_active_blocks, pool_blocks);
    bytes += pool_bytes;
    blocks += pool_blocks;
  }
  counts_.peak_active = std::max(counts_.peak_active, bytes);
  counts_.peak_active_blocks = std::max(counts_.peak_active_blocks, blocks);
}

Address Core::allocate(std::size_t bytes, Stream stream, std::uint64_t tag) {
  if (bytes > SIZE_MAX / 4) return 0;
  const std::size_t rounded =
      std::max((bytes + config_.quantum - 1) & ~(config_.quantum - 1), config_.quantum);
  const std::size_t pool = rounded <= config_.small_limit ? Space::small : Space::large;
  std::unique_lock lock(lock_);
  const std::uint32_t index = order_.index_of(stream);
  if (index == Order::no_stream) return 0;
  if (rounded <= config_.quick_limit) {
    if (Block* block = pop_quick(index, rounded); block != nullptr) {
      count_allocated(block, bytes, tag);
      return block->address;
    }
  }
  Block* block = allocate_cached(pool, index, rounded);
  for (int asked = 0; block == nullptr; ++asked) {
    block = allocate_slowly(pool, index, rounded);
    if (block != nullptr) break;
    std::size_t reclaimed = 0;
    if (reclaim_ && asked < most_reclaims) {
      ++counts_.reclaims;
      try {
        const Reclaim reclaim = reclaim_;
        lock.unlock();
        reclaimed = reclaim(rounded);
      } catch (...) {
        reclaimed = 0;  // the stash is in trouble itself: then there is no memory
      }
      if (!lock.owns_lock()) lock.lock();
    }
    if (reclaimed == 0) {
      ++counts_.failures;
      // Handles that were to be part of it: of more use to others.
      space_.release(SIZE_MAX, false);
      return 0;
    }
    block = allocate_cached(pool, index, rounded);
  }
  if (!table_.insert(block->address, block)) {
    space_.give(block);
    return 0;
  }
  count_allocated(block, bytes, tag);
  return block->address;
}

void Core::complete(const Block* block, std::uint32_t stream) const noexcept {
  if (!completed_) return;
  BlockInfo completed = info(block);
  completed.stream = order_.stream(stream);
  completed_(completed);
}

// pre: used
void Core::free_block(Block* block) noexcept {
  ++counts_.frees;
  --counts_.used_blocks;
  counts_.allocated -= block->bytes;
  counts_.requested -= block->requested;
  PoolStats& pool = counts_.pools[block->region->pool];
  pool.blocks.remove(1);
  pool.allocated.remove(block->bytes);
  pool.requested.remove(block->requested);
  if (block->waits == nullptr) complete(block, block->stream);
  if (block->waits == nullptr && push_quick(block)) return;
  table_.erase(block->address);
  block->stamp = order_.stamp(block->stream);
  if (block->waits == nullptr) {
    space_.give(block);
  } else {
    count_pending(block);
    space_.suspend(block);
  }
  if (config_.idle_period != 0) decay_locked();
}

bool Core::free(Address address) {
  const std::lock_guard lock(lock_);
  Block* block = used_block(address);
  if (block == nullptr) return false;
  // Events that cannot be recorded now are recorded when they are first asked for: later, so safe.
  if (block->waits != nullptr && may_remap()) order_.record(block->waits);
  free_block(block);
  return true;
}

bool Core::record_stream(Address address, Stream stream) {
  const std::lock_guard lock(lock_);
  Block* block = used_block(address);
  if (block == nullptr) return false;
  const std::uint32_t index = order_.index_of(stream);
  if (index == Order::no_stream) return false;
  if (driver_.synchronous || index == block->stream) return true;
  for (const Wait* wait = block->waits; wait != nullptr; wait = wait->next) {
    if (wait->stream == index && wait->moment == nullptr) return true;
  }
  return order_.add(block->waits, index, nullptr);
}

Moment* Core::moment(Stream stream) {
  const std::lock_guard lock(lock_);
  const std::uint32_t index = order_.index_of(stream);
  return index == Order::no_stream ? nullptr : order_.moment(index);
}

void Core::drop(Moment* moment) {
  const std::lock_guard lock(lock_);
  order_.drop(moment);
}

bool Core::free_after(Address address, Moment* moment) {
  const std::lock_guard lock(lock_);
  Block* block = used_block(address);
  if (block == nullptr) return false;
  if (block->waits != nullptr && may_remap()) order_.record(block->waits);
  if (!driver_.synchronous && !moment->done && !order_.add(block->waits, block->stream, moment)) {
    return false;
  }
  free_block(block);
  return true;
}

void Core::retain(Moment* moment) {
  const std::lock_guard lock(lock_);
  order_.retain(moment);
}

bool Core::happened(Moment* moment) {
  const std::lock_guard lock(lock_);
  return may_remap() ? order_.happened(moment) : moment->done;
}

bool Core::wait(Stream stream, Moment* moment) {
  const std::lock_guard lock(lock_);
  return driver_.synchronous || moment->done ||
         driver_.stream_wait(driver_.self, stream, moment->event) == Status::ok;
}

bool Core::renew_access() {
  const std::lock_guard lock(lock_);
  return space_.renew_access() == Status::ok;
}

std::size_t Core::size_of(Address address) const {
  const std::lock_guard lock(lock_);
  const Block* block = used_block(address);
  return block == nullptr ? 0 : block->bytes;
}

Address Core::base_of(Address address) const {
  const std::lock_guard lock(lock_);
  const Block* block = space_.block_at(address);
  return block == nullptr || block->state != State::used ? 0 : block->address;
}

std::size_t Core::release_idle() {
  const std::lock_guard lock(lock_);
  return may_remap() ? release_everything() : space_.release(SIZE_MAX, false);
}

std::size_t Core::release_idle_now() {
  const std::lock_guard lock(lock_);
  return release_everything();
}

std::size_t Core::release_everything() noexcept {
  flush_all_quick();
  finish_everything();
  const std::size_t given = space_.release(SIZE_MAX, true);
  space_.release_regions();
  return given;
}

void Core::pause() {
  const std::lock_guard lock(lock_);
  ++paused_;
}

void Core::resume() {
  const std::lock_guard lock(lock_);
  --paused_;
}

std::vector<Core::Piece> Core::behind(Address address) const {
  std::vector<Piece> pieces;
  const std::lock_guard lock(lock_);
  const Block* block = used_block(address);
  if (block == nullptr) return pieces;
  for (Address at = block->address; at < block->end();) {
    const Physical& physical = space_.behind(*block->region, at);
    pieces.push_back({physical.handle, physical.address, physical.bytes});
    at = physical.address + physical.bytes;
  }
  return pieces;
}

bool Core::pin(Address address) {
  const std::lock_guard lock(lock_);
  const Block* block = used_block(address);
  return block != nullptr && space_.pin(block->address, block->bytes);
}

void Core::unpin(Address address, std::size_t bytes) {
  const std::lock_guard lock(lock_);
  space_.unpin(address, bytes);
}

void Core::set_limit(std::size_t bytes) {
  const std::lock_guard lock(lock_);
  space_.set_limit(bytes);
}

std::size_t Core::limit() const {
  const std::lock_guard lock(lock_);
  return space_.limit();
}

void Core::set_reclaim(Reclaim reclaim) {
  const std::lock_guard lock(lock_);
  reclaim_ = std::move(reclaim);
}

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

Core::BlockInfo Core::info(const Block* block) const noexcept {
  return {block->address,   block->bytes,
          block->requested, order_.stream(block->stream),
          block->state,     block->region->pool == Space::small,
          block->tag};
}

std::optional<Core::BlockInfo> Core::find(Address address) const {
  const std::lock_guard lock(lock_);
  const Block* block = used_block(address);
  return block == nullptr ? std::nullopt : std::optional(info(block));
}

void Core::set_completed(Completed completed) {
  const std::lock_guard lock(lock_);
  completed_ = std::move(completed);
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

// Before memory is created: what is idle goes first when the driver has little left.
void Core::heed_pressure() noexcept {
  if (config_.pressure == 0 || !may_remap()) return;
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver_.memory_info(driver_.self, &free, &total) == Status::ok && free < config_.pressure) {
    space_.release(SIZE_MAX, true);
  }
}

void Core::decay() {
  const std::lock_guard lock(lock_);
  if (config_.idle_period != 0) decay_locked();
}

void Core::decay_locked() noexcept {
  const std::uint64_t now = driver_.now(driver_.self);
  if (now - looked_at_ < config_.idle_period / looks_per_period) return;
  looked_at_ = now;
  if (now - period_began_ >= config_.idle_period) {
    period_began_ = now;
    most_used_before_ = most_used_now_;
    most_used_now_ = counts_.allocated;
  }
  const std::size_t most = std::max(most_used_before_, most_used_now_);
  const std::size_t keep = most + most / idle_share + config_.large_page;
  const std::size_t reserved = space_.counters().reserved;
  if (reserved > keep && may_remap()) space_.release(reserved - keep, true);
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
