// SPDX-License-Identifier: Apache-2.0
// Donors: free blocks whose handles move to where a miss needs them, and what becomes of them.
#include <algorithm>
#include <utility>

#include "allocator/space/space.h"

namespace cinch::allocator {

// The first free block from `at` on that is large enough for a whole handle. Of each stream the
// smaller ones, which may be many, are skipped at once.
BlockTree::iterator Space::donor_from(BlockTree& tree, BlockTree::iterator at) const noexcept {
  while (at != tree.end() && at->bytes < driver_.granularity) {
    at = tree.lower_bound(ByFit::Key(at->stream, driver_.granularity, 0), ByFit());
  }
  return at;
}

// Cuts the last run of whole, unpinned handles, at most `most` bytes, out of a free block. The run
// is claimed, in no tree; the rest stays free. Null when there is no such run.
Block* Space::claim_run(Block* block, std::size_t most) noexcept {
  const Region& region = *block->region;
  Address end = 0;
  Address begin = 0;
  for (Address at = block->end() / driver_.granularity * driver_.granularity;
       at > block->address;) {
    Physical* physical = physical_at(region, at - driver_.granularity);
    if (physical->address < block->address) break;  // it begins in another block
    const Address physical_end = physical->address + physical->bytes;
    const bool good = physical_end <= block->end() && !pinned(region, *physical);
    if (begin != 0 && (!good || end - physical->address > most)) break;
    if (good && physical->bytes <= most) {
      if (begin == 0) end = physical_end;
      begin = physical->address;
    }
    at = physical->address;
  }
  if (begin == 0) return nullptr;
  BlockTree& tree = pools_[region.pool].free;
  tree.erase(tree.iterator_to(*block));
  Block* run = block;
  Block* before = nullptr;
  if (begin > block->address) {
    before = block;
    run = split(block, begin - block->address);
  }
  Block* after = run != nullptr && end < run->end() ? split(run, end - run->address) : nullptr;
  if (run == nullptr || (after == nullptr && end < run->end())) {  // no memory for the nodes
    if (run != nullptr && before != nullptr) join(before);
    tree.insert(*block);
    return nullptr;
  }
  run->state = State::claimed;
  if (before != nullptr) tree.insert(*before);
  if (after != nullptr) tree.insert(*after);
  return run;
}

// Claims runs of the stream's free memory and, if all may give, of other streams' that is idle on
// the device, up to `remaining` bytes, which it reduces. Small blocks go first, since large ones
// serve more requests. Returns a list by quick_next. No more may be leaving than is reserved: a
// device that never finishes anything would use up all addresses.
Block* Space::claim_donors(std::size_t& remaining, std::uint32_t stream, Donors whose) noexcept {
  Block* donors = nullptr;
  std::size_t may_leave =
      counters_.reserved - std::min(counters_.reserved, counters_.leaving.current);
  for (const std::size_t pool : {large, small}) {
    BlockTree& tree = pools_[pool].free;
    const bool all = whose == Donors::all;
    auto at = all ? tree.begin() : tree.lower_bound(ByFit::Key(stream, 0, 0), ByFit());
    while (remaining > 0) {
      at = donor_from(tree, at);
      if (at == tree.end() || (!all && at->stream != stream)) break;
      Block* block = &*at;
      const ByFit::Key key = ByFit::key(*block);
      const bool busy = !idle(block);
      const bool may_move = !busy || block->stream == stream;
      Block* run =
          may_move ? claim_run(block, busy ? std::min(remaining, may_leave) : remaining) : nullptr;
      if (run != nullptr) {
        remaining -= run->bytes;
        if (busy) may_leave -= run->bytes;
        run->quick_next = donors;
        donors = run;
      }
      // The rest of the block is smaller, so it sorts before `key`.
      at = tree.upper_bound(key, ByFit());
    }
  }
  return donors;
}

// Unmaps all handles of a claimed block and appends them to `list`; the block becomes a hole. On
// failure the part that is still mapped becomes free.
bool Space::unmap_run(Block* block, List& list) noexcept {
  Region& region = *block->region;
  for (Address at = block->address; at < block->end();) {
    Physical* physical = physical_at(region, at);
    if (count(driver_.unmap(driver_.self, at, physical->bytes, physical->handle)) != Status::ok) {
      Block* rest = at == block->address ? block : split(block, at - block->address);
      if (rest == nullptr) {
        // No heap memory for a second block: the whole is unusable until the rest can be unmapped.
        block->state = State::stuck;
        counters_.stuck += block->bytes;
        return false;
      }
      insert_free(rest);
      if (rest != block) insert_hole(block);
      return false;
    }
    set_unmapped(physical, region, at);
    at += physical->bytes;
    physical->moved = true;
    list.append(physical);
    ++counters_.moved_handles;
  }
  insert_hole(block);
  return true;
}

// Appends the donors' handles to `list`. Those of idle donors are unmapped first; the other donors
// are put into `busy`, a list by quick_next, still claimed and mapped. From a failure on, `status`
// or one of its own, donors become free again.
Status Space::take_donors(Block* donors, List& list, Block*& busy, Status status) noexcept {
  if (donors != nullptr && status == Status::ok) ++counters_.stitches;
  while (donors != nullptr) {
    Block* next = std::exchange(donors->quick_next, nullptr);
    if (status != Status::ok) {
      insert_free(donors);
    } else if (counters_.moved_bytes += donors->bytes; idle(donors)) {
      if (!unmap_run(donors, list)) status = Status::failed;
    } else {
      for (Address at = donors->address; at < donors->end();) {
        Physical* physical = physical_at(*donors->region, at);
        at += physical->bytes;
        list.append(physical);
      }
      donors->quick_next = busy;
      busy = donors;
    }
    donors = next;
  }
  return status;
}

// After take_donors: if their handles were mapped elsewhere too, busy donors leave, else they are
// free again. Returns the number of the last free of their memory.
std::uint64_t Space::settle_busy(Block* busy, bool moved) noexcept {
  std::uint64_t last = 0;
  while (busy != nullptr) {
    Block* next = std::exchange(busy->quick_next, nullptr);
    if (moved) {
      last = std::max(last, busy->free_number);
      leave(busy);
    } else {
      insert_free(busy);
    }
    busy = next;
  }
  return last;
}

// Takes a claimed block out of use whose handles are mapped elsewhere by now.
void Space::leave(Block* block) noexcept {
  for (Address at = block->address; at < block->end();) {
    Physical* physical = physical_at(*block->region, at);
    at += physical->bytes;
    physical->moved = true;
    ++counters_.moved_handles;
  }
  block->state = State::leaving;
  block->quick_next = leaving_;
  leaving_ = block;
  counters_.leaving.add(block->bytes);
  counters_.moved_early_bytes += block->bytes;
}

// Unmaps leaving blocks that the device is known to be done with. What the driver will not unmap
// stays.
void Space::unmap_left() noexcept {
  for (Block** link = &leaving_; *link != nullptr;) {
    Block* block = *link;
    if (!idle(block) || !unmap_rest(block)) {
      link = &block->quick_next;
      continue;
    }
    *link = std::exchange(block->quick_next, nullptr);
    counters_.leaving.remove(block->bytes);
    insert_hole(block);
  }
}

}  // namespace cinch::allocator
