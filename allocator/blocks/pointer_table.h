// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// A hash map from addresses to blocks: linear probing, deletion by shifting back, so no tombstones
/// and no heap calls except to grow. Throws nothing. Not thread-safe but for `find_unlocked`, for
/// whose sake outgrown tables are kept: together they are smaller than the present one.
template <class Value>
class PointerTable {
 public:
  /// Null for any address that is not in the table, 0 among them.
  Value* find(Address address) const noexcept {
    const Slots* slots = slots_.load(std::memory_order_relaxed);
    if (slots == nullptr) return nullptr;
    for (std::size_t i = slots->home(address);; i = (i + 1) & slots->mask) {
      const Slot& slot = slots->slots[i];
      const Address found = slot.address.load(std::memory_order_relaxed);
      if (found == address) return slot.value.load(std::memory_order_relaxed);
      if (found == 0) return nullptr;
    }
  }

  /// As find, but for any thread while others change the table. It may miss what is there.
  /// @pre nobody inserts or erases this address meanwhile, else the answer may be outdated
  Value* find_unlocked(Address address) const noexcept {
    const Slots* slots = slots_.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    std::size_t i = slots->home(address);
    for (std::size_t looked = 0; looked <= slots->mask; ++looked, i = (i + 1) & slots->mask) {
      const Slot& slot = slots->slots[i];
      const Address found = slot.address.load(std::memory_order_acquire);
      if (found == 0) return nullptr;
      if (found != address) continue;
      Value* value = slot.value.load(std::memory_order_acquire);
      // A writer first clears a slot's address. It is unchanged, so the value belongs to it.
      return slot.address.load(std::memory_order_relaxed) == address ? value : nullptr;
    }
    return nullptr;
  }

  /// False when the heap has no memory. @pre address is not 0 and not in the table
  bool insert(Address address, Value* value) noexcept {
    Slots* slots = slots_.load(std::memory_order_relaxed);
    if (slots == nullptr || 2 * (size_ + 1) > slots->mask + 1) {
      if (!grow()) return false;
      slots = slots_.load(std::memory_order_relaxed);
    }
    slots->put(address, value);
    ++size_;
    return true;
  }

  /// @pre address is in the table
  void erase(Address address) noexcept {
    Slots& slots = *slots_.load(std::memory_order_relaxed);
    const std::size_t mask = slots.mask;
    std::size_t hole = slots.home(address);
    while (slots.address(hole) != address) hole = (hole + 1) & mask;
    for (std::size_t i = (hole + 1) & mask; slots.address(i) != 0; i = (i + 1) & mask) {
      const std::size_t home = slots.home(slots.address(i));
      if (((i - home) & mask) >= ((i - hole) & mask)) {  // its home is not after the hole
        slots.set(hole, slots.address(i), slots.slots[i].value.load(std::memory_order_relaxed));
        hole = i;
      }
    }
    slots.clear(hole);
    --size_;
  }

  std::size_t size() const noexcept { return size_; }

 private:
  struct Slot {
    std::atomic<Address> address{0};
    std::atomic<Value*> value{nullptr};
  };

  struct Slots {
    std::size_t mask = 0;
    int shift = 64;
    std::unique_ptr<Slot[]> slots;
    std::unique_ptr<Slots> outgrown;

    std::size_t home(Address address) const noexcept {
      // Addresses are multiples of some power of two: take the product's high bits, which depend on
      // all bits of the address.
      return static_cast<std::size_t>((std::uint64_t{address} * 0x9E3779B97F4A7C15u) >> shift);
    }
    Address address(std::size_t i) const noexcept {
      return slots[i].address.load(std::memory_order_relaxed);
    }
    void set(std::size_t i, Address address, Value* value) noexcept {
      Slot& slot = slots[i];
      slot.address.store(0, std::memory_order_relaxed);
      slot.value.store(value, std::memory_order_release);
      slot.address.store(address, std::memory_order_release);
    }
    // Clears the value too: a search for address 0 matches an empty slot and must return null.
    void clear(std::size_t i) noexcept {
      slots[i].address.store(0, std::memory_order_relaxed);
      slots[i].value.store(nullptr, std::memory_order_release);
    }
    void put(Address address, Value* value) noexcept {
      std::size_t i = home(address);
      while (this->address(i) != 0) i = (i + 1) & mask;
      set(i, address, value);
    }
  };

  static constexpr std::size_t first_capacity = 1024;

  bool grow() noexcept {
    const std::size_t capacity = newest_ == nullptr ? first_capacity : 2 * (newest_->mask + 1);
    std::unique_ptr<Slots> slots(new (std::nothrow) Slots);
    if (slots == nullptr) return false;
    slots->slots.reset(new (std::nothrow) Slot[capacity]);
    if (slots->slots == nullptr) return false;
    slots->mask = capacity - 1;
    slots->shift = 64 - __builtin_ctzll(capacity);
    for (std::size_t i = 0; newest_ != nullptr && i <= newest_->mask; ++i) {
      const Slot& slot = newest_->slots[i];
      const Address address = slot.address.load(std::memory_order_relaxed);
      if (address != 0) slots->put(address, slot.value.load(std::memory_order_relaxed));
    }
    slots->outgrown = std::move(newest_);
    newest_ = std::move(slots);
    slots_.store(newest_.get(), std::memory_order_release);
    return true;
  }

  std::unique_ptr<Slots> newest_;
  std::atomic<Slots*> slots_{nullptr};  // newest_, for find_unlocked
  std::size_t size_ = 0;
};

}  // namespace cinch::allocator
