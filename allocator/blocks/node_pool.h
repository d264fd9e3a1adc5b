// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace cinch::allocator {

/// A pool of nodes of one type. It keeps all memory for reuse: no heap calls after warm-up. Nodes
/// that were not given back are not destroyed. Not thread-safe; throws nothing.
template <class T>
class NodePool {
  static_assert(std::is_nothrow_destructible_v<T>);

 public:
  /// A new T, or null when the heap has no memory.
  T* take() noexcept {
    if (free_ == nullptr && !grow()) return nullptr;
    Slot* slot = free_;
    free_ = slot->next;
    ++used_;
    return new (static_cast<void*>(slot)) T();
  }

  void give(T* node) noexcept {
    node->~T();
    auto* slot = new (static_cast<void*>(node)) Slot;
    slot->next = free_;
    free_ = slot;
    --used_;
  }

  std::size_t used() const noexcept { return used_; }

 private:
  union Slot {
    Slot* next;
    alignas(T) std::byte storage[sizeof(T)];
  };

  static constexpr std::size_t chunk = 256;

  bool grow() noexcept {
    try {
      chunks_.emplace_back(std::make_unique<Slot[]>(chunk));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::size_t i = chunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = &chunks_.back()[i];
    }
    return true;
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  Slot* free_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace cinch::allocator
