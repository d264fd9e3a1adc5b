// SPDX-License-Identifier: Apache-2.0
// Requests that a cached block serves, and frees. Misses: core_miss.cpp; figures: core_report.cpp.
#include "allocator/core.h"

#include <algorithm>
#include <new>
#include <utility>

namespace cinch::allocator {
namespace {

// Most calls of the reclaim callback for one allocation.
constexpr int most_reclaims = 4;
// How often idle memory is checked in an idle period.
constexpr std::uint64_t looks_per_period = 8;
// 1/idle_share of the peak use may stay idle beyond it.
constexpr std::size_t idle_share = 32;

}  // namespace

Core::Core(const Driver& driver, const Config& config)
    : driver_(driver),
      config_(config),
      order_(driver),
      space_(driver, config, order_),
      fronts_(config) {
  if (config_.front_always) fronts_.open_all();
}

Core::~Core() = default;

Block* Core::used_block(Address address) const noexcept {
  Block* block = table_.find(address);
  return block != nullptr && block->state == State::used && !block->in_front ? block : nullptr;
}

// As used_block, and no other thread can free the block until free_block clears Block::in_front.
Block* Core::claim(Address address) noexcept {
  Block* block = used_block(address);
  if (block == nullptr || !fronts_.ever_open()) return block;
  return block->in_front.exchange(true, std::memory_order_acq_rel) ? nullptr : block;
}

// Opens the fronts while threads contend for the lock, and closes them when they no longer do.
void Core::heed_contention(std::uint32_t stream) noexcept {
  // Free callbacks run under the lock, so fronts stay closed while one is installed.
  const bool wanted =
      (lock_.busy() || config_.front_always) && config_.front_limit != 0 && !completed_;
  if (wanted != fronts_.open()) {
    if (wanted) {
      fronts_.open_all();
    } else {
      fronts_.close();
      for (std::uint32_t i = 0; i < order_.stream_count(); ++i) drain_fronts(i);
    }
  }
  if (wanted) fronts_.add_stream(stream, order_.stream(stream));
}

// Frees all blocks in the stream's fronts. Returns whether there were any.
bool Core::drain_fronts(std::uint32_t stream) noexcept {
  if (!fronts_.ever_open()) return false;
  Fronts::Account account;
  Block* block = fronts_.drain(stream, account);
  counts_.frees += account.given;
  for (std::size_t i = 0; i < account.pools.size(); ++i) {
    const Fronts::Account::Pool& from = account.pools[i];
    PoolStats& to = counts_.pools[i];
    counts_.allocations += from.taken;
    counts_.fronted += from.taken;
    counts_.requested += from.change;
    to.requested.current += from.change;
    to.blocks.added += from.taken;
    to.allocated.added += from.taken_bytes;
    to.requested.added += from.taken_requested;
  }
  const bool any = block != nullptr;
  while (block != nullptr) {
    Block* next = std::exchange(block->quick_next, nullptr);
    uncount_used(block);
    table_.erase(block->address);
    block->free_number = order_.number_free(stream);
    block->state = State::claimed;
    block->in_front.store(false, std::memory_order_release);
    space_.give(block);
    block = next;
  }
  return any;
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

Block* Core::allocate_cached(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  Block* block = space_.fit(pool, stream, bytes);
  return block == nullptr ? nullptr : space_.take(block, bytes);
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

// Updates peaks of used plus pending memory; while nothing is pending, stats() takes the used ones.
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
  if (fronts_.open()) {
    const Block* block = fronts_.take(stream, rounded, bytes, tag);
    if (block != nullptr) return block->address;
  }
  std::unique_lock lock(lock_);
  const std::uint32_t index = order_.index_of(stream);
  if (index == Order::no_stream || !has_pending_list(index)) return 0;
  if (contended()) heed_contention(index);
  if (may_remap()) settle_pending(false);
  if (rounded <= config_.quick_limit) {
    if (Block* block = pop_quick(index, rounded); block != nullptr) {
      count_allocated(block, bytes, tag);
      return block->address;
    }
  }
  Block* block = allocate_cached(pool, index, rounded);
  for (int asked = 0; block == nullptr; ++asked) {
    block = allocate_slowly(pool, index, rounded, lock);
    if (block != nullptr) break;
    std::size_t reclaimed = 0;
    if (reclaim_ && asked < most_reclaims) {
      ++counts_.reclaims;
      try {
        const Reclaim reclaim = reclaim_;
        lock.unlock();
        reclaimed = reclaim(rounded);
      } catch (...) {
        reclaimed = 0;  // the stash itself lacks memory
      }
      if (!lock.owns_lock()) lock.lock();
    }
    if (reclaimed == 0) {
      ++counts_.failures;
      // Unmapped handles that failed attempts have left: give them to others.
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

void Core::uncount_used(const Block* block) noexcept {
  --counts_.used_blocks;
  counts_.allocated -= block->bytes;
  counts_.requested -= block->requested;
  PoolStats& pool = counts_.pools[block->region->pool];
  pool.blocks.remove(1);
  pool.allocated.remove(block->bytes);
  pool.requested.remove(block->requested);
}

// pre: the block comes from claim()
void Core::free_block(Block* block) noexcept {
  ++counts_.frees;
  uncount_used(block);
  if (block->waits == nullptr) complete(block, block->stream);
  if (block->waits == nullptr && push_quick(block)) {
    block->in_front.store(false, std::memory_order_release);
    return;
  }
  table_.erase(block->address);
  block->state = State::claimed;  // before in_front is cleared: a second free sees one
  block->in_front.store(false, std::memory_order_release);
  block->free_number = order_.number_free(block->stream);
  if (block->waits == nullptr) {
    space_.give(block);
  } else {
    add_pending(block);
  }
  if (config_.idle_period != 0) give_back_idle();
}

bool Core::free(Address address) {
  bool stale = false;
  if (fronts_.open()) {
    if (Block* block = table_.find_unlocked(address); block != nullptr) {
      const Fronts::Given given = fronts_.give(block, address);
      if (given == Fronts::Given::kept) return true;
      stale = given == Fronts::Given::stale;
    }
  }
  const std::lock_guard lock(lock_);
  Block* block = claim(address);
  if (block == nullptr) return false;
  if (contended()) heed_contention(block->stream);
  if (stale) drain_fronts(block->stream);
  // Events that cannot be recorded now are recorded when first queried: later, so still safe.
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
    if (wait->stream == index && wait->recorded == nullptr) return true;
  }
  return order_.add(block->waits, index);
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

std::size_t Core::release_idle() {
  std::unique_lock lock(lock_);
  return release_everything(lock, false);
}

std::size_t Core::release_idle_now() {
  std::unique_lock lock(lock_);
  return release_everything(lock, true);
}

void Core::pause() {
  std::unique_lock lock(lock_);
  ++paused_;
  waited_.wait(lock, [this] { return waiting_ == 0; });
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

Core::BlockInfo Core::info(const Block* block) const noexcept {
  return {block->address,   block->bytes,
          block->requested, order_.stream(block->stream),
          state_of(block),  block->region->pool == Space::small,
          block->tag};
}

void Core::set_completed(Completed completed) {
  const std::lock_guard lock(lock_);
  completed_ = std::move(completed);
  if (!completed_ || !fronts_.open()) return;
  fronts_.close();
  for (std::uint32_t i = 0; i < order_.stream_count(); ++i) drain_fronts(i);
}

void Core::lock_for_fork() noexcept {
  lock_.mutex().lock();
  fronts_.lock();
}

void Core::unlock_after_fork() noexcept {
  fronts_.unlock();
  lock_.mutex().unlock();
}

void Core::end_round() {
  const std::lock_guard lock(lock_);
  if (config_.idle_period == 0) return;
  ++rounds_;
  give_back_idle();
}

void Core::give_back_idle() noexcept {
  const std::uint64_t now = driver_.now(driver_.self);
  const std::uint64_t age = now - period_began_;
  const bool is_over = age >= config_.idle_period ||
                       (rounds_ >= config_.idle_rounds && age >= config_.least_idle_period);
  if (!is_over && now - looked_at_ < config_.idle_period / looks_per_period) return;
  looked_at_ = now;
  if (is_over) {
    period_began_ = now;
    rounds_ = 0;
    most_used_before_ = most_used_now_;
    most_used_now_ = counts_.allocated;
  }
  const std::size_t most = std::max(most_used_before_, most_used_now_);
  const std::size_t keep = most + most / idle_share + config_.large_page;
  const std::size_t reserved = space_.counters().reserved;
  if (reserved > keep && may_remap()) space_.release(reserved - keep, true);
}

}  // namespace cinch::allocator
