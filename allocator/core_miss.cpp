// SPDX-License-Identifier: Apache-2.0
// Misses: what is tried, in turn, when no free block of the stream serves a request.
#include <new>
#include <utility>

#include "allocator/core.h"

namespace cinch::allocator {

// Makes the stream's quick blocks and those in fronts free. Returns whether there were any.
bool Core::flush_quick(std::uint32_t stream) noexcept {
  bool any = drain_fronts(stream);
  if (stream >= quick_.size() || quick_bytes_ == 0) return any;
  for (std::size_t i = 0; i <= config_.quick_limit / config_.quantum; ++i) {
    Block* block = std::exchange(quick_[stream].heads[i], nullptr);
    while (block != nullptr) {
      Block* next = std::exchange(block->quick_next, nullptr);
      quick_bytes_ -= block->bytes;
      table_.erase(block->address);
      block->free_number = order_.number_free(stream);
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

// Makes the list in which the stream's pending blocks will be. False when the heap has no memory.
bool Core::has_pending_list(std::uint32_t stream) noexcept {
  if (stream < pending_.size()) return true;
  try {
    pending_.resize(stream + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Core::add_pending(Block* block) noexcept {
  PoolStats& pool = counts_.pools[block->region->pool];
  ++pool.pending_blocks;
  pool.pending += block->bytes;
  pending_bytes_ += block->bytes;
  pending_[block->stream].append(block);
  space_.suspend(block);
}

// The block's waits are over, or `stream` waits for them, which gets it.
void Core::remove_pending(Block* block, std::uint32_t stream) noexcept {
  PoolStats& pool = counts_.pools[block->region->pool];
  --pool.pending_blocks;
  pool.pending -= block->bytes;
  pending_bytes_ -= block->bytes;
  pending_[block->stream].remove(block);
  complete(block, stream);
  // What the callback has enqueued comes before an unmapping, too.
  if (completed_) block->free_number = order_.number_free(stream);
}

// Makes pending blocks free whose waits are over: all, or of each stream the oldest ones, up to the
// first that is not done. Returns whether there were any.
bool Core::settle_pending(bool all) noexcept {
  if (pending_bytes_ == 0) return false;
  bool any = false;
  for (const BlockList& list : pending_) {
    for (Block* block = list.first(); block != nullptr;) {
      Block* next = block->quick_next;
      if (order_.query(block->waits)) {
        remove_pending(block, block->stream);
        space_.resume(block);
        any = true;
      } else if (!all) {
        break;
      }
      block = next;
    }
  }
  return any;
}

// Takes a pending block of the stream, which then waits on the device for the block's other users.
Block* Core::allocate_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  if (pending_bytes_ == 0 || !may_remap()) return nullptr;
  if (settle_pending(true)) {
    if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  }
  Block* block = space_.fit_pending(pool, stream, bytes);
  if (block == nullptr || !order_.wait_for(stream, block->waits)) return nullptr;
  remove_pending(block, stream);
  // An older fence does not cover the other streams.
  block->free_number = order_.number_free(stream);
  return space_.take(block, bytes);
}

// Takes a block of another stream. This stream waits on the device for that stream's work so far.
Block* Core::allocate_foreign(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  if (!may_remap()) return nullptr;
  if (Block* block = space_.fit_foreign(pool, stream, bytes); block != nullptr) {
    if (order_.idle(block->stream, block->free_number) ||
        order_.wait_for_stream(stream, block->stream)) {
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
  remove_pending(block, stream);
  // Its other streams may still use all of it; only this stream waits for them: do not split it.
  block = space_.take(block, block->bytes);
  block->stream = stream;
  ++counts_.foreign;
  return block;
}

Block* Core::allocate_grown(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  using Donors = Space::Donors;
  // Take other streams' memory only when the driver has no more: streams that take turns would take
  // it from each other for ever.
  if (space_.grow(pool, stream, bytes, may_remap() ? Donors::own_stream : Donors::none) !=
          Status::ok &&
      (!may_remap() || space_.grow(pool, stream, bytes, Donors::all) != Status::ok)) {
    return nullptr;
  }
  return allocate_cached(pool, stream, bytes);
}

// Blocks the host, without the lock, until the device has done all that frees and events depended
// on when it was called: one wait for each stream. Other threads may change anything meanwhile.
void Core::finish_everything(std::unique_lock<Lock>& lock, bool even_paused) noexcept {
  if (driver_.synchronous) return;
  ++counts_.host_waits;
  settle_pending(true);
  finish_outstanding(lock);
  // A pause may have begun, which forbids asking for events.
  const bool may_settle = may_remap() || even_paused;
  // A free callback may have enqueued work.
  if (may_settle && settle_pending(true) && completed_) finish_outstanding(lock);
}

// Waits, without the lock, for all work that streams were given.
void Core::finish_outstanding(std::unique_lock<Lock>& lock) noexcept {
  Wait* events = order_.outstanding(pending_bytes_ != 0);
  ++waiting_;
  lock.unlock();
  order_.await(events);
  lock.lock();
  if (--waiting_ == 0) waited_.notify_all();
  order_.finish(events);
}

Block* Core::allocate_at_any_price(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                                   std::unique_lock<Lock>& lock) noexcept {
  ++counts_.retries;
  if (Block* block = allocate_foreign(pool, stream, bytes); block != nullptr) return block;
  if (!may_remap()) return nullptr;
  flush_all_quick();
  finish_everything(lock, false);
  if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  if (Block* block = allocate_grown(pool, stream, bytes); block != nullptr) return block;
  if (Block* block = allocate_foreign(pool, stream, bytes); block != nullptr) return block;
  // Last try: what is missing may be handles of other sizes, or addresses.
  if (!may_remap()) return nullptr;
  space_.release(SIZE_MAX, true);
  space_.release_regions();
  return allocate_grown(pool, stream, bytes);
}

// Called before memory is created: gives idle memory back when the driver has little left.
void Core::heed_pressure() noexcept {
  if (config_.pressure == 0 || !may_remap()) return;
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver_.memory_info(driver_.self, &free, &total) == Status::ok && free < config_.pressure) {
    space_.release(SIZE_MAX, true);
  }
}

Block* Core::allocate_slowly(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                             std::unique_lock<Lock>& lock) noexcept {
  if (drain_fronts(stream)) {
    if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  }
  ++counts_.misses;
  if (Block* block = allocate_pending(pool, stream, bytes); block != nullptr) return block;
  if (pool == Space::small && flush_quick(stream)) {
    if (Block* block = allocate_cached(pool, stream, bytes); block != nullptr) return block;
  }
  heed_pressure();
  if (Block* block = allocate_grown(pool, stream, bytes); block != nullptr) return block;
  return allocate_at_any_price(pool, stream, bytes, lock);
}

// While paused, unmapped handles only, unless `even_paused`.
std::size_t Core::release_everything(std::unique_lock<Lock>& lock, bool even_paused) noexcept {
  if (may_remap() || even_paused) {
    flush_all_quick();
    finish_everything(lock, even_paused);
  }
  if (!may_remap() && !even_paused) return space_.release(SIZE_MAX, false);
  const std::size_t given = space_.release(SIZE_MAX, true);
  space_.release_regions();
  return given;
}

}  // namespace cinch::allocator
