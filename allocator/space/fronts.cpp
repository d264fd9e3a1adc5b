// SPDX-License-Identifier: Apache-2.0
#include "allocator/space/fronts.h"

#include <mutex>
#include <new>
#include <utility>

#include "allocator/space/space.h"

namespace cinch::allocator {
namespace {

// A thread's number, up to 63: the lowest that no other living thread has, so that threads differ
// in it. When all are taken, 0.
class ThreadNumber {
 public:
  ThreadNumber() noexcept {
    std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (taken == UINT64_MAX) return;  // 0, which another thread has too
      bit_ = ~taken & (taken + 1);
    } while (!taken_.compare_exchange_weak(taken, taken | bit_, std::memory_order_relaxed));
    value_ = static_cast<std::uint32_t>(__builtin_ctzll(bit_));
  }
  ~ThreadNumber() { taken_.fetch_and(~bit_, std::memory_order_relaxed); }
  ThreadNumber(const ThreadNumber&) = delete;
  ThreadNumber& operator=(const ThreadNumber&) = delete;

  std::uint32_t value() const noexcept { return value_; }

 private:
  static inline std::atomic<std::uint64_t> taken_{0};
  std::uint64_t bit_ = 0;
  std::uint32_t value_ = 0;
};

}  // namespace

void Fronts::Account::add(const Account& other) noexcept {
  for (std::size_t i = 0; i < pools.size(); ++i) {
    Pool& to = pools[i];
    const Pool& from = other.pools[i];
    to.blocks += from.blocks;
    to.bytes += from.bytes;
    to.requested += from.requested;
    to.change += from.change;
    to.taken += from.taken;
    to.taken_bytes += from.taken_bytes;
    to.taken_requested += from.taken_requested;
  }
  given += other.given;
}

Fronts::~Fronts() {
  for (auto& stream : by_index_) delete stream.load(std::memory_order_relaxed);
}

std::size_t Fronts::set_of(std::size_t bytes) noexcept {
  static_assert(slots % ways == 0 && (slots / ways & (slots / ways - 1)) == 0);
  return (std::uint64_t{bytes} * 0x9E3779B97F4A7C15u >> 40) % (slots / ways) * ways;
}

std::size_t Fronts::place_of(Stream stream) noexcept {
  static_assert((places & (places - 1)) == 0);
  return (static_cast<std::uint64_t>(stream) * 0x9E3779B97F4A7C15u >> 40) % places;
}

std::uint32_t Fronts::shard() noexcept {
  thread_local const ThreadNumber number;
  return number.value() % shards;
}

// There are fewer streams than places, so the search ends.
Fronts::StreamFronts* Fronts::of(Stream stream) const noexcept {
  for (std::size_t i = place_of(stream);; i = (i + 1) % places) {
    StreamFronts* found = by_stream_[i].load(std::memory_order_acquire);
    if (found == nullptr || found->stream == stream) return found;
  }
}

// The slot with blocks of this size, or null.
Fronts::Slot* Fronts::Front::find(std::size_t bytes) noexcept {
  const std::size_t set = set_of(bytes);
  for (std::size_t i = set; i < set + ways; ++i) {
    if (kept[i].bytes == bytes && kept[i].head != nullptr) return &kept[i];
  }
  return nullptr;
}

// The slot of this size; else an empty one, which becomes that; else null.
Fronts::Slot* Fronts::Front::place_for(std::size_t bytes) noexcept {
  const std::size_t set = set_of(bytes);
  Slot* empty = nullptr;
  for (std::size_t i = set; i < set + ways; ++i) {
    if (kept[i].bytes == bytes) return &kept[i];
    if (kept[i].head == nullptr) empty = &kept[i];
  }
  if (empty != nullptr) empty->bytes = bytes;
  return empty;
}

Block* Fronts::take(Stream stream, std::size_t bytes, std::size_t requested,
                    std::uint64_t tag) noexcept {
  if (bytes > limit_) return nullptr;
  StreamFronts* fronts = of(stream);
  if (fronts == nullptr) return nullptr;
  Front& front = fronts->fronts[shard()];
  const std::lock_guard lock(front.lock);
  Slot* slot = front.find(bytes);
  if (slot == nullptr) return nullptr;
  Block* block = slot->head;
  slot->head = std::exchange(block->quick_next, nullptr);
  Account::Pool& pool = front.account.pools[block->region->pool];
  --pool.blocks;
  pool.bytes -= bytes;
  pool.requested -= block->requested;
  pool.change += requested - block->requested;
  ++pool.taken;
  pool.taken_bytes += bytes;
  pool.taken_requested += requested;
  front.refusals = 0;
  block->requested = requested;
  block->tag = tag;
  block->in_front.store(false, std::memory_order_release);
  return block;
}

Fronts::Given Fronts::give(Block* block, Address address) noexcept {
  // Mark first: of two threads that free the same block, one sees the other's mark. The one that
  // goes on is the block's only user, so it may read the block.
  if (block->in_front.exchange(true, std::memory_order_acq_rel)) return Given::refused;
  Given result = Given::refused;
  if (block->state == State::used && block->address == address && block->waits == nullptr &&
      block->bytes <= limit_ && block->stream < most_streams) {
    StreamFronts* fronts = by_index_[block->stream].load(std::memory_order_acquire);
    if (fronts != nullptr) {
      Front& front = fronts->fronts[shard()];
      const std::lock_guard lock(front.lock);
      Slot* slot = nullptr;
      // close() is followed by a drain, so a block that enters while fronts are open is not lost.
      if (open() && front.blocks() < most_blocks && front.bytes() + block->bytes <= most_) {
        slot = front.place_for(block->bytes);
      }
      if (slot != nullptr) {
        block->quick_next = slot->head;
        slot->head = block;
        Account::Pool& pool = front.account.pools[block->region->pool];
        ++pool.blocks;
        pool.bytes += block->bytes;
        pool.requested += block->requested;
        ++front.account.given;
        return Given::kept;
      }
      if (++front.refusals == patience) {
        front.refusals = 0;
        result = Given::stale;
      }
    }
  }
  block->in_front.store(false, std::memory_order_release);
  return result;
}

void Fronts::open_all() noexcept {
  ever_open_ = true;
  open_.store(true, std::memory_order_release);
}

void Fronts::add_stream(std::uint32_t index, Stream stream) noexcept {
  if (index >= most_streams || by_index_[index].load(std::memory_order_relaxed) != nullptr) return;
  auto* made = new (std::nothrow) StreamFronts;
  if (made == nullptr) return;
  made->stream = stream;
  made->index = index;
  std::size_t place = place_of(stream);
  while (by_stream_[place].load(std::memory_order_relaxed) != nullptr) place = (place + 1) % places;
  by_index_[index].store(made, std::memory_order_release);
  by_stream_[place].store(made, std::memory_order_release);
}

Block* Fronts::drain(std::uint32_t index, Account& account) noexcept {
  StreamFronts* fronts =
      index < most_streams ? by_index_[index].load(std::memory_order_relaxed) : nullptr;
  if (fronts == nullptr) return nullptr;
  Block* all = nullptr;
  for (Front& front : fronts->fronts) {
    const std::lock_guard lock(front.lock);
    account.add(std::exchange(front.account, {}));
    front.refusals = 0;
    for (Slot& slot : front.kept) {
      while (slot.head != nullptr) {
        Block* block = slot.head;
        slot.head = block->quick_next;
        block->quick_next = all;
        all = block;
      }
    }
  }
  return all;
}

void Fronts::lock() const noexcept {
  for (const auto& stream : by_index_) {
    const StreamFronts* fronts = stream.load(std::memory_order_relaxed);
    if (fronts == nullptr) continue;
    for (const Front& front : fronts->fronts) front.lock.lock();
  }
}

void Fronts::unlock() const noexcept {
  for (const auto& stream : by_index_) {
    const StreamFronts* fronts = stream.load(std::memory_order_relaxed);
    if (fronts == nullptr) continue;
    for (const Front& front : fronts->fronts) front.lock.unlock();
  }
}

Fronts::Account Fronts::account() const noexcept {
  Account all;
  for (const auto& stream : by_index_) {
    const StreamFronts* fronts = stream.load(std::memory_order_relaxed);
    if (fronts == nullptr) continue;
    for (const Front& front : fronts->fronts) all.add(front.account);
  }
  return all;
}

bool Fronts::verify() const noexcept {
  for (const auto& stream : by_index_) {
    const StreamFronts* fronts = stream.load(std::memory_order_relaxed);
    if (fronts == nullptr) continue;
    for (const Front& front : fronts->fronts) {
      Account found;
      for (const Slot& slot : front.kept) {
        for (const Block* block = slot.head; block != nullptr; block = block->quick_next) {
          if (!block->in_front || block->state != State::used || block->waits != nullptr ||
              block->bytes != slot.bytes || block->stream != fronts->index) {
            return false;
          }
          Account::Pool& pool = found.pools[block->region->pool];
          ++pool.blocks;
          pool.bytes += block->bytes;
          pool.requested += block->requested;
        }
      }
      for (std::size_t i = 0; i < found.pools.size(); ++i) {
        const Account::Pool& counted = front.account.pools[i];
        if (counted.blocks != found.pools[i].blocks || counted.bytes != found.pools[i].bytes ||
            counted.requested != found.pools[i].requested) {
          return false;
        }
      }
      if (front.bytes() > most_ || front.blocks() > most_blocks) return false;
    }
  }
  return true;
}

}  // namespace cinch::allocator
