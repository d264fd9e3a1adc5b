// SPDX-License-Identifier: Apache-2.0
// Giving memory and addresses back, and checking invariants.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "allocator/space/space.h"

namespace cinch::allocator {

void Space::keep_unmapped(Physical* physical) noexcept {
  physical->next = unmapped_;
  unmapped_ = physical;
  counters_.unmapped += physical->bytes;
}

// Releases an unmapped handle. Returns its bytes, or 0 if it is still mapped at an old address or
// the driver failed; it is then kept.
std::size_t Space::give_to_driver(Physical* physical) noexcept {
  const std::size_t bytes = physical->bytes;
  if (physical->old_mappings != 0 ||
      count(driver_.release(driver_.self, physical->handle)) != Status::ok) {
    keep_unmapped(physical);
    return 0;
  }
  counters_.reserved -= bytes;
  ++counters_.released;
  count_out(physical);
  physicals_.give(physical);
  return bytes;
}

void Space::retry_stuck() noexcept {
  if (counters_.stuck == 0) return;
  for (const auto& region : regions_) {
    for (Block* block = region->first; block != nullptr; block = block->next) {
      if (block->state != State::stuck || !unmap_rest(block)) continue;
      counters_.stuck -= block->bytes;
      Block* before = block->previous;
      insert_hole(block);
      if (before != nullptr && before->state == State::hole) block = before;
    }
  }
}

void Space::query_all() noexcept {
  for (std::uint32_t stream = 0; stream < order_.stream_count(); ++stream) order_.query(stream);
}

// Queries all streams, and joins neighbouring free blocks of different streams that are idle:
// either stream can use idle memory, and a handle under both blocks could not be moved otherwise.
void Space::look_for_idle() noexcept {
  query_all();
  // Looking through all blocks at each refusal would take long where many are refused.
  if (!std::exchange(foreign_neighbours_, false)) return;
  const auto free_and_idle = [this](const Block* block) {
    return block->state == State::free && idle(block);
  };
  for (const auto& region : regions_) {
    BlockTree& tree = pools_[region->pool].free;
    for (Block* block = region->first; block->next != nullptr;) {
      Block* after = block->next;
      if (!free_and_idle(block) || !free_and_idle(after)) {
        if (block->state == State::free && after->state == State::free) foreign_neighbours_ = true;
        block = after;
        continue;
      }
      const std::uint32_t stream = block->bytes >= after->bytes ? block->stream : after->stream;
      tree.erase(tree.iterator_to(*block));
      tree.erase(tree.iterator_to(*after));
      join(block);
      block->stream = stream;
      block->free_number = 0;
      // The next block may be of this stream, but not idle: free neighbours of a stream are joined.
      if (after = block->next; after != nullptr && after->state == State::free &&
                               after->stream == stream && !idle(after)) {
        tree.erase(tree.iterator_to(*after));
        join(block);
      }
      if (Block* before = block->previous;
          before != nullptr && before->state == State::free && before->stream == stream) {
        tree.erase(tree.iterator_to(*before));
        join(before);
        block = before;
      }
      tree.insert(*block);
    }
  }
}

std::size_t Space::release(std::size_t bytes, bool may_unmap) noexcept {
  std::size_t given = 0;
  if (may_unmap) {
    retry_stuck();
    look_for_idle();
    unmap_left();
  }
  Physical* kept = unmapped_;
  unmapped_ = nullptr;
  counters_.unmapped = 0;
  while (kept != nullptr) {
    Physical* physical = kept;
    kept = physical->next;
    if (given < bytes) {
      given += give_to_driver(physical);
    } else {
      keep_unmapped(physical);
    }
  }
  if (!may_unmap) return given;
  for (const std::size_t pool : {large, small}) {
    BlockTree& tree = pools_[pool].free;
    for (auto at = donor_from(tree, tree.begin()); at != tree.end() && given < bytes;) {
      Block* block = &*at;
      const ByFit::Key key = ByFit::key(*block);
      while (block != nullptr && given < bytes && block->bytes >= driver_.granularity &&
             idle(block)) {
        Block* run = claim_run(block, std::max(bytes - given, config_.large_page));
        if (run == nullptr) break;
        block = run == block ? nullptr : block;  // the rest before the run
        List list;
        unmap_run(run, list);
        for (Physical* p = list.first; p != nullptr;) {
          Physical* next = p->next;
          given += give_to_driver(p);
          p = next;
        }
        if (block != nullptr && block->state != State::free) block = nullptr;
      }
      at = donor_from(tree, tree.upper_bound(key, ByFit()));
    }
  }
  return given;
}

void Space::release_regions() noexcept {
  retry_stuck();
  for (std::size_t i = regions_.size(); i-- > 0;) {
    const Region& region = *regions_[i];
    Block* block = region.first;
    if (block->state != State::hole || block->next != nullptr) continue;
    BlockTree& holes = pools_[region.pool].holes;
    holes.erase(holes.iterator_to(*block));
    if (count(driver_.unreserve(driver_.self, region.address, region.bytes)) != Status::ok) {
      holes.insert(*block);
      continue;
    }
    blocks_.give(block);
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Space::reset_peaks() noexcept {
  counters_.peak_reserved = counters_.reserved;
  counters_.peak_handles = counters_.created - counters_.released;
  for (const std::size_t pool : {small, large}) {
    counters_.handles_in[pool].reset_peak();
    counters_.reserved_in[pool].reset_peak();
  }
}

Status Space::renew_access() noexcept {
  for (const auto& region : regions_) {
    for (std::size_t i = 0; i < region->bytes / driver_.granularity;) {
      const Physical* physical = region->units[i].physical;
      if (physical == nullptr) {
        ++i;
        continue;
      }
      const Address at = region->address + i * driver_.granularity;
      i += physical->bytes / driver_.granularity;
      const Status status = count(driver_.set_access(driver_.self, at, physical->bytes));
      if (status != Status::ok) return status;
    }
  }
  return Status::ok;
}

/// Sums over blocks and handles, to be compared with the counters.
struct Space::Found {
  bool wrong(const char* what, Address where) {
    char text[160];
    std::snprintf(text, sizeof text, "%s at %#zx", what, where);
    fault = text;
    return false;
  }
  void add(const Physical& p) {
    ++physicals;
    counted_old_mappings += p.old_mappings;
    ++handles_in[p.pool];
    reserved_in[p.pool] += p.bytes;
  }

  std::string& fault;
  std::size_t blocks = 0;
  std::size_t physicals = 0;
  std::size_t mapped = 0;  // bytes, as are the next two
  std::size_t unmapped = 0;
  std::size_t stuck = 0;
  std::size_t leaving = 0;
  std::size_t leaving_blocks = 0;
  std::size_t old_mappings = 0;                         // as regions have them
  std::size_t counted_old_mappings = 0;                 // as handles count them
  std::array<std::array<std::size_t, 3>, 2> in_tree{};  // by pool: free, pending, holes
  std::array<std::size_t, 2> handles_in{};
  std::array<std::size_t, 2> reserved_in{};
};

bool Space::verify(std::string& fault) const {
  Found found{fault};
  for (const auto& region : regions_) {
    if (!verify_blocks(*region, found) || !verify_handles(*region, found)) return false;
  }
  for (const Physical* p = unmapped_; p != nullptr; p = p->next) {
    found.add(*p);
    found.unmapped += p->bytes;
    if (p->address != 0) return found.wrong("unmapped handle has an address", p->address);
  }
  return verify_counts(found);
}

bool Space::verify_blocks(const Region& region, Found& found) const {
  Address at = region.address;
  const Block* before = nullptr;
  for (const Block* b = region.first; b != nullptr; before = b, b = b->next) {
    ++found.blocks;
    if (b->address != at || b->bytes == 0) return found.wrong("blocks do not tile", b->address);
    if (b->previous != before || b->region != &region) return found.wrong("links", b->address);
    if (b->address % config_.quantum != 0 && b->state != State::hole) {
      return found.wrong("alignment", b->address);
    }
    at = b->end();
    auto& counts = found.in_tree[region.pool];
    switch (b->state) {
      case State::free:
        ++counts[0];
        break;
      case State::pending:
        ++counts[1];
        break;
      case State::hole:
        ++counts[2];
        break;
      case State::claimed:
        return found.wrong("a block left claimed", b->address);
      case State::stuck:
        found.stuck += b->bytes;
        break;
      case State::leaving:
        found.leaving += b->bytes;
        ++found.leaving_blocks;
        break;
      case State::quick:
      case State::used:
        break;
    }
    if (before != nullptr && before->state == b->state &&
        (b->state == State::hole || (b->state == State::free && before->stream == b->stream))) {
      return found.wrong("neighbours not coalesced", b->address);
    }
    if (before != nullptr && before->state == State::free && b->state == State::free &&
        !foreign_neighbours_) {
      return found.wrong("neighbours of two streams not noted", b->address);
    }
    if (b->state == State::stuck || b->state == State::leaving) continue;
    const bool hole = b->state == State::hole;
    for (Address a = b->address / driver_.granularity * driver_.granularity; a < b->end();
         a += driver_.granularity) {
      const Physical* p = physical_at(region, a);
      if ((p == nullptr) != hole) return found.wrong("mapping", a);
      if (!hole && a - p->address >= p->bytes) return found.wrong("an old mapping in use", a);
    }
  }
  return at == region.address + region.bytes || found.wrong("region's end", at);
}

bool Space::verify_handles(const Region& region, Found& found) const {
  for (std::size_t i = 0; i < region.bytes / driver_.granularity;) {
    const Physical* p = region.units[i].physical;
    if (p == nullptr) {
      ++i;
      continue;
    }
    const Address where = region.address + i * driver_.granularity;
    if (p->address != where) {
      ++found.old_mappings;
    } else {
      if (p->region != &region) return found.wrong("handle", where);
      found.add(*p);
      found.mapped += p->bytes;
    }
    for (const std::size_t end = i + p->bytes / driver_.granularity; i < end; ++i) {
      if (region.units[i].physical != p) return found.wrong("handle's extent", where);
    }
  }
  return true;
}

bool Space::verify_counts(Found& found) const {
  for (const std::size_t pool : {small, large}) {
    const Pool& trees = pools_[pool];
    const std::array<std::size_t, 3> sizes = {trees.free.size(), trees.pending.size(),
                                              trees.holes.size()};
    if (sizes != found.in_tree[pool]) return found.wrong("trees and blocks differ in pool", pool);
    if (counters_.handles_in[pool].current != found.handles_in[pool] ||
        counters_.reserved_in[pool].current != found.reserved_in[pool]) {
      return found.wrong("a pool's handles miscounted", pool);
    }
  }
  if (found.blocks != blocks_.used()) return found.wrong("blocks lost", found.blocks);
  if (found.physicals != physicals_.used() ||
      found.physicals != counters_.created - counters_.released) {
    return found.wrong("handles lost", found.physicals);
  }
  std::size_t listed = 0;
  for (const Block* b = leaving_; b != nullptr; b = b->quick_next) {
    if (b->state != State::leaving) return found.wrong("a block listed as leaving", b->address);
    ++listed;
  }
  if (listed != found.leaving_blocks || found.leaving != counters_.leaving.current) {
    return found.wrong("leaving blocks lost", found.leaving);
  }
  if (found.old_mappings != found.counted_old_mappings) {
    return found.wrong("old mappings miscounted", found.old_mappings);
  }
  if (found.unmapped != counters_.unmapped || found.stuck != counters_.stuck ||
      found.mapped + found.unmapped != counters_.reserved) {
    return found.wrong("bytes not conserved", counters_.reserved);
  }
  if (counters_.reserved > limit_) return found.wrong("limit exceeded", counters_.reserved);
  return true;
}

}  // namespace cinch::allocator
