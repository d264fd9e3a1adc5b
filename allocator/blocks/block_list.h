// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "allocator/blocks/block.h"

namespace cinch::allocator {

/// Blocks in the order in which they were appended, linked by Block::quick_next.
class BlockList {
 public:
  /// The oldest block; null when there is none.
  Block* first() const noexcept { return first_; }

  /// @pre the block is in no list
  void append(Block* block) noexcept {
    (last_ == nullptr ? first_ : last_->quick_next) = block;
    last_ = block;
  }

  /// Takes time for each older block. @pre the block is in this list
  void remove(Block* block) noexcept {
    Block* before = nullptr;
    for (Block* at = first_; at != block; at = at->quick_next) before = at;
    Block* next = std::exchange(block->quick_next, nullptr);
    (before == nullptr ? first_ : before->quick_next) = next;
    if (next == nullptr) last_ = before;
  }

 private:
  Block* first_ = nullptr;
  Block* last_ = nullptr;
};

}  // namespace cinch::allocator
