// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "allocator/driver.h"

namespace cinch::allocator {

/// From addresses to blocks: linear probing, deletion by shifting back, so there are no tombstones
/// and no heap calls but to grow. Not thread-safe; throws nothing.
template <class Value>
class PointerTable {
 public:
  Value* find(Address address) const noexcept {
    if (capacity_ == 0) return nullptr;
    for (std::size_t i = slot_of(address);; i = (i + 1) & (capacity_ - 1)) {
      if (slots_[i].address == address) return slots_[i].value;
      if (slots_[i].address == 0) return nullptr;
    }
  }

  /// False when the heap has no memory. @pre address is not 0 and not in the table
  bool insert(Address address, Value* value) noexcept {
    if (2 * (size_ + 1) > capacity_ && !grow()) return false;
    put(address, value);
    ++size_;
    return true;
  }

  /// @pre address is in the table
  void erase(Address address) noexcept {
    const std::size_t mask = capacity_ - 1;
    std::size_t hole = slot_of(address);
    while (slots_[hole].address != address) hole = (hole + 1) & mask;
    for (std::size_t i = (hole + 1) & mask; slots_[i].address != 0; i = (i + 1) & mask) {
      const std::size_t home = slot_of(slots_[i].address);
      if (((i - home) & mask) >= ((i - hole) & mask)) {  // its home is not behind the hole
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = {};
    --size_;
  }

  std::size_t size() const noexcept { return size_; }

 private:
  struct Slot {
    Address address = 0;
    Value* value = nullptr;
  };

  static constexpr std::size_t first_capacity = 1024;

  std::size_t slot_of(Address address) const noexcept {
    // Addresses are multiples of some power of two: the product's high bits depend on all of them.
    return static_cast<std::size_t>((std::uint64_t{address} * 0x9E3779B97F4A7C15u) >> shift_);
  }

  void put(Address address, Value* value) noexcept {
    std::size_t i = slot_of(address);
    while (slots_[i].address != 0) i = (i + 1) & (capacity_ - 1);
    slots_[i] = {address, value};
  }

  bool grow() noexcept {
    const std::size_t capacity = capacity_ == 0 ? first_capacity : 2 * capacity_;
    std::unique_ptr<Slot[]> slots(new (std::nothrow) Slot[capacity]);
    if (slots == nullptr) return false;
    slots.swap(slots_);
    const std::size_t before = capacity_;
    capacity_ = capacity;
    shift_ = 64 - __builtin_ctzll(capacity);
    for (std::size_t i = 0; i < before; ++i) {
      if (slots[i].address != 0) put(slots[i].address, slots[i].value);
    }
    return true;
  }

  std::unique_ptr<Slot[]> slots_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  int shift_ = 64;
};

}  // namespace cinch::allocator
