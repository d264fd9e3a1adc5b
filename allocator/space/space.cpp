// SPDX-License-Identifier: Apache-2.0
// Blocks: fitting, splitting, joining. Mapping: space_grow.cpp; giving back: space_release.cpp.
#include "allocator/space/space.h"

#include <algorithm>

namespace cinch::allocator {
namespace {

Block* fit_in(BlockTree& tree, std::uint32_t stream, std::size_t bytes) noexcept {
  const auto found = tree.lower_bound(ByFit::Key(stream, bytes, 0), ByFit());
  return found != tree.end() && found->stream == stream ? &*found : nullptr;
}

}  // namespace

Space::Space(const Driver& driver, const Config& config, Order& order)
    : driver_(driver), config_(config), order_(order), limit_(config.limit) {}

Space::~Space() {
  for (Pool& pool : pools_) {
    pool.free.clear();
    pool.pending.clear();
    pool.holes.clear();
  }
  for (const auto& region : regions_) {
    for (const Block* block = region->first; block != nullptr; block = block->next) {
      if (block->waits != nullptr) {
        Wait* waits = block->waits;
        order_.clear(waits);
      }
    }
    for (std::size_t i = 0; i < region->bytes / driver_.granularity;) {
      Physical* physical = region->units[i].physical;
      if (physical == nullptr) {
        ++i;
        continue;
      }
      const Address at = region->address + i * driver_.granularity;
      i += physical->bytes / driver_.granularity;
      driver_.unmap(driver_.self, at, physical->bytes, physical->handle);
      if (physical->address == at) keep_unmapped(physical);
    }
    driver_.unreserve(driver_.self, region->address, region->bytes);
  }
  for (const Physical* p = unmapped_; p != nullptr; p = p->next) {
    driver_.release(driver_.self, p->handle);
  }
}

Block* Space::fit(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  return fit_in(pools_[pool].free, stream, bytes);
}

Block* Space::fit_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  return fit_in(pools_[pool].pending, stream, bytes);
}

Block* Space::fit_foreign(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  Block* best = nullptr;
  bool best_idle = false;
  for (std::uint32_t other = 0; other < order_.stream_count(); ++other) {
    Block* block = other == stream ? nullptr : fit(pool, other, bytes);
    if (block == nullptr) continue;
    const bool idle = order_.idle(other, block->free_number);
    if (best == nullptr || idle > best_idle || (idle == best_idle && block->bytes < best->bytes)) {
      best = block;
      best_idle = idle;
    }
  }
  return best;
}

Block* Space::fit_foreign_pending(std::size_t pool, std::uint32_t stream,
                                  std::size_t bytes) noexcept {
  Block* best = nullptr;
  for (std::uint32_t other = 0; other < order_.stream_count(); ++other) {
    Block* block = other == stream ? nullptr : fit_pending(pool, other, bytes);
    if (block != nullptr && (best == nullptr || block->bytes < best->bytes)) best = block;
  }
  return best;
}

BlockTree& Space::tree_of(const Block* block) noexcept {
  Pool& pool = pools_[block->region->pool];
  return block->state == State::free      ? pool.free
         : block->state == State::pending ? pool.pending
                                          : pool.holes;
}

// Cuts a block after `bytes` and returns the rest, in the same state; null when the heap has no
// memory. pre: block is in no tree, 0 < bytes < block->bytes
Block* Space::split(Block* block, std::size_t bytes) noexcept {
  Block* rest = blocks_.take();
  if (rest == nullptr) return nullptr;
  rest->address = block->address + bytes;
  rest->bytes = block->bytes - bytes;
  rest->previous = block;
  rest->next = block->next;
  rest->region = block->region;
  rest->free_number = block->free_number;
  rest->stream = block->stream;
  rest->state = block->state;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  return rest;
}

// Joins a block with the next one. pre: both are in no tree
void Space::join(Block* block) noexcept {
  Block* gone = block->next;
  block->bytes += gone->bytes;
  block->free_number = std::max(block->free_number, gone->free_number);
  block->next = gone->next;
  if (block->next != nullptr) block->next->previous = block;
  blocks_.give(gone);
}

// pre: block is in no tree
void Space::insert_free(Block* block) noexcept {
  BlockTree& tree = pools_[block->region->pool].free;
  block->state = State::free;
  Block* before = block->previous;
  if (before != nullptr && before->state == State::free && before->stream == block->stream) {
    tree.erase(tree.iterator_to(*before));
    join(before);
    block = before;
  }
  Block* after = block->next;
  if (after != nullptr && after->state == State::free && after->stream == block->stream) {
    tree.erase(tree.iterator_to(*after));
    join(block);
  }
  tree.insert(*block);
  // Neighbours of the same stream were joined.
  const auto is_free = [](const Block* b) { return b != nullptr && b->state == State::free; };
  if (is_free(block->previous) || is_free(block->next)) foreign_neighbours_ = true;
}

// pre: block is in no tree, nothing is mapped in it
void Space::insert_hole(Block* block) noexcept {
  BlockTree& tree = pools_[block->region->pool].holes;
  block->state = State::hole;
  block->stream = 0;
  block->free_number = 0;
  if (Block* before = block->previous; before != nullptr && before->state == State::hole) {
    tree.erase(tree.iterator_to(*before));
    join(before);
    block = before;
  }
  if (Block* after = block->next; after != nullptr && after->state == State::hole) {
    tree.erase(tree.iterator_to(*after));
    join(block);
  }
  tree.insert(*block);
}

Block* Space::take(Block* block, std::size_t bytes) noexcept {
  BlockTree& tree = tree_of(block);
  tree.erase(tree.iterator_to(*block));
  block->state = State::free;
  if (block->bytes > bytes) {
    // Without heap memory for the rest the whole block is given: too large, but correct.
    if (Block* rest = split(block, bytes); rest != nullptr) {
      block->state = State::used;
      insert_free(rest);
    }
  }
  block->state = State::used;
  return block;
}

void Space::give(Block* block) noexcept {
  insert_free(block);
}

void Space::suspend(Block* block) noexcept {
  block->state = State::pending;
  pools_[block->region->pool].pending.insert(*block);
}

void Space::resume(Block* block) noexcept {
  BlockTree& tree = pools_[block->region->pool].pending;
  tree.erase(tree.iterator_to(*block));
  insert_free(block);
}

bool Space::pinned(const Region& region, const Physical& physical) const noexcept {
  const std::size_t first = unit_index(region, physical.address);
  for (std::size_t i = 0; i < physical.bytes / driver_.granularity; ++i) {
    if (region.units[first + i].pins != 0) return true;
  }
  return false;
}

bool Space::pin(Address address, std::size_t bytes) noexcept {
  for (const auto& region : regions_) {
    if (address < region->address || address - region->address >= region->bytes) continue;
    const std::size_t last = unit_index(*region, address + bytes - 1);
    for (std::size_t i = unit_index(*region, address); i <= last; ++i) ++region->units[i].pins;
    return true;
  }
  return false;
}

void Space::unpin(Address address, std::size_t bytes) noexcept {
  for (const auto& region : regions_) {
    if (address < region->address || address - region->address >= region->bytes) continue;
    const std::size_t last = unit_index(*region, address + bytes - 1);
    for (std::size_t i = unit_index(*region, address); i <= last; ++i) --region->units[i].pins;
  }
}

Status Space::count(Status status) noexcept {
  if (status != Status::ok) ++counters_.failures;
  return status;
}

}  // namespace cinch::allocator
