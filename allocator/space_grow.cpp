// SPDX-License-Identifier: Apache-2.0
// Growing: choosing addresses for a miss, collecting and mapping handles, and undoing all of it.
#include <algorithm>
#include <new>

#include "allocator/space.h"

namespace cinch::allocator {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

bool is_free_for(const Block* block, std::uint32_t stream) {
  return block != nullptr && block->state == State::free && block->stream == stream;
}

}  // namespace

void Space::List::append(Physical* physical) noexcept {
  physical->next = nullptr;
  (first == nullptr ? first : last->next) = physical;
  last = physical;
  bytes += physical->bytes;
}

// Chooses the hole where least must be mapped beside free blocks; on a tie the smallest hole.
Space::Place Space::choose(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept {
  Place best;
  for (Block& hole : pools_[pool].holes) {
    Block* left = is_free_for(hole.previous, stream) ? hole.previous : nullptr;
    Block* right = is_free_for(hole.next, stream) ? hole.next : nullptr;
    const std::size_t l = left == nullptr ? 0 : left->bytes;
    const std::size_t r = right == nullptr ? 0 : right->bytes;
    Place place{.left = left, .hole = &hole, .right = nullptr, .need = 0, .at_end = false};
    if (bytes <= l + hole.bytes || bytes <= r + hole.bytes) {
      place.at_end = r > l;
      if (place.at_end) {
        place.left = nullptr;
        place.right = right;
      }
      place.need = round_up(bytes - std::max(l, r), driver_.granularity);
    } else if (bytes <= l + hole.bytes + r) {
      place.right = right;
      place.need = hole.bytes;
    } else {
      continue;
    }
    if (best.hole == nullptr || place.need < best.need) best = place;
  }
  return best;
}

Status Space::reserve(std::size_t pool, std::size_t bytes) noexcept {
  bytes = round_up(bytes, driver_.granularity);
  std::size_t wanted = config_.region_bytes;
  if (wanted == 0) {
    std::size_t free = 0;
    std::size_t total = 0;
    if (count(driver_.memory_info(driver_.self, &free, &total)) != Status::ok) total = 0;
    wanted = 2 * total;
  }
  wanted = std::max(bytes, wanted / driver_.granularity * driver_.granularity);
  Status status = Status::failed;
  Address address = 0;
  for (;; wanted = std::max(bytes, wanted / 2 / driver_.granularity * driver_.granularity)) {
    status = count(driver_.reserve(driver_.self, wanted, &address));
    if (status == Status::ok || wanted == bytes) break;
  }
  if (status != Status::ok) return status;
  Block* block = blocks_.take();
  if (block != nullptr) {
    try {
      auto region = std::make_unique<Region>();
      region->units.reset(
          static_cast<Unit*>(std::calloc(wanted / driver_.granularity, sizeof(Unit))));
      if (region->units == nullptr) throw std::bad_alloc();
      region->address = address;
      region->bytes = wanted;
      region->pool = pool;
      region->first = block;
      block->address = address;
      block->bytes = wanted;
      block->region = region.get();
      regions_.push_back(std::move(region));
      insert_hole(block);
      return Status::ok;
    } catch (const std::bad_alloc&) {
      blocks_.give(block);
    }
  }
  count(driver_.unreserve(driver_.self, address, wanted));
  return Status::out_of_memory;
}

// Takes unmapped handles: the largest that are not larger than what remains; when there is none,
// the smallest larger one for whose excess the hole has room.
void Space::take_unmapped(List& list, std::size_t& remaining, std::size_t room) noexcept {
  while (remaining > 0) {
    Physical** best = nullptr;
    for (Physical** link = &unmapped_; *link != nullptr; link = &(*link)->next) {
      const std::size_t bytes = (*link)->bytes;
      if (bytes > remaining + room) continue;
      if (best == nullptr) {
        best = link;
        continue;
      }
      const std::size_t champion = (*best)->bytes;
      const bool better = bytes <= remaining ? champion > remaining || bytes > champion
                                             : champion > remaining && bytes < champion;
      if (better) best = link;
    }
    if (best == nullptr) return;
    Physical* physical = *best;
    *best = physical->next;
    counters_.unmapped -= physical->bytes;
    list.append(physical);
    const std::size_t excess = physical->bytes > remaining ? physical->bytes - remaining : 0;
    room -= excess;
    remaining -= physical->bytes - excess;
  }
}

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

// Claims runs of free memory that is idle on the device, up to `remaining` bytes, which it reduces.
// Small blocks go first, since large ones serve more requests. Returns a list by quick_next.
Block* Space::claim_donors(std::size_t& remaining, std::uint32_t stream, Donors whose) noexcept {
  Block* donors = nullptr;
  if (whose == Donors::all) {
    look_for_idle();
  } else {
    order_.query(stream);
  }
  for (const std::size_t pool : {large, small}) {
    BlockTree& tree = pools_[pool].free;
    const bool all = whose == Donors::all;
    auto at = all ? tree.begin() : tree.lower_bound(ByFit::Key(stream, 0, 0), ByFit());
    while (remaining > 0) {
      at = donor_from(tree, at);
      if (at == tree.end() || (!all && at->stream != stream)) break;
      Block* block = &*at;
      const ByFit::Key key = ByFit::key(*block);
      const bool idle = order_.idle(block->stream, block->free_number);
      Block* run = idle ? claim_run(block, remaining) : nullptr;
      if (run != nullptr) {
        remaining -= run->bytes;
        run->quick_next = donors;
        donors = run;
      }
      // The rest of the block is smaller, so it sorts before `key`.
      at = tree.upper_bound(key, ByFit());
    }
  }
  return donors;
}

std::size_t Space::page_bytes(std::size_t pool) const noexcept {
  if (pool == small) return round_up(config_.small_page, driver_.granularity);
  const std::size_t share = counters_.reserved / config_.large_page_share;
  return round_up(std::clamp(share, config_.least_large_page, config_.large_page),
                  driver_.granularity);
}

void Space::count_in(Physical* physical, std::size_t pool) noexcept {
  physical->pool = static_cast<std::uint8_t>(pool);
  counters_.handles_in[pool].add(1);
  counters_.reserved_in[pool].add(physical->bytes);
}

void Space::count_out(Physical* physical) noexcept {
  counters_.handles_in[physical->pool].remove(1);
  counters_.reserved_in[physical->pool].remove(physical->bytes);
}

// Whether the limit and the driver's free memory allow `bytes` more. Without this check a hopeless
// request would create all there is before it fails. A single handle is simply tried.
bool Space::could_create(std::size_t bytes) noexcept {
  if (bytes > limit_ || counters_.reserved > limit_ - bytes) return false;
  std::size_t free = 0;
  std::size_t total = 0;
  return bytes <= config_.large_page ||
         count(driver_.memory_info(driver_.self, &free, &total)) != Status::ok || bytes <= free;
}

Status Space::create(List& list, std::size_t& remaining, std::size_t room,
                     std::size_t pool) noexcept {
  const std::size_t page = page_bytes(pool);
  if (remaining > 0 && !could_create(remaining)) return Status::out_of_memory;
  while (remaining > 0) {
    std::size_t bytes = std::min(page, remaining + room);
    Status status = Status::out_of_memory;
    Handle handle = 0;
    for (;;) {
      if (bytes <= limit_ && counters_.reserved <= limit_ - bytes) {
        status = count(driver_.create(driver_.self, bytes, &handle));
      }
      if (status == Status::ok || bytes <= remaining) break;
      bytes = remaining;  // less than a whole page may be enough
    }
    if (status != Status::ok) return status;
    Physical* physical = physicals_.take();
    if (physical == nullptr) {
      count(driver_.release(driver_.self, handle));
      return Status::out_of_memory;
    }
    physical->handle = handle;
    physical->bytes = bytes;
    counters_.reserved += bytes;
    counters_.peak_reserved = std::max(counters_.peak_reserved, counters_.reserved);
    ++counters_.created;
    count_in(physical, pool);
    counters_.peak_handles =
        std::max<std::size_t>(counters_.peak_handles, counters_.created - counters_.released);
    list.append(physical);
    const std::size_t excess = bytes > remaining ? bytes - remaining : 0;
    room -= excess;
    remaining -= bytes - excess;
  }
  return Status::ok;
}

// Unmaps all handles of a claimed block and appends them to `list`; the block becomes a hole. On
// failure the part that is still mapped becomes free.
bool Space::unmap_run(Block* block, List& list) noexcept {
  Region& region = *block->region;
  for (Address at = block->address; at < block->end();) {
    Physical* physical = physical_at(region, at);
    if (count(driver_.unmap(driver_.self, physical->address, physical->bytes, physical->handle)) !=
        Status::ok) {
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
    at += physical->bytes;
    set_unmapped(physical);
    physical->moved = true;
    list.append(physical);
    ++counters_.moved_handles;
  }
  insert_hole(block);
  return true;
}

// Notes that the driver has unmapped the handle.
void Space::set_unmapped(Physical* physical) noexcept {
  const Region& region = *physical->region;
  const std::size_t first = unit_index(region, physical->address);
  for (std::size_t i = 0; i < physical->bytes / driver_.granularity; ++i) {
    region.units[first + i].physical = nullptr;
  }
  physical->address = 0;
  physical->region = nullptr;
}

Status Space::unmap_donors(Block* donors, List& list) noexcept {
  bool good = true;
  while (donors != nullptr) {
    Block* next = donors->quick_next;
    donors->quick_next = nullptr;
    if (good) {
      good = unmap_run(donors, list);
    } else {
      insert_free(donors);
    }
    donors = next;
  }
  return good ? Status::ok : Status::failed;
}

// Maps the list's handles over a claimed block of exactly their size. On failure unmaps them again,
// where the driver does; `undo` handles the rest. The block is in no tree either way.
Status Space::map_all(Block* target, const List& list) noexcept {
  Region& region = *target->region;
  Address at = target->address;
  Status status = Status::ok;
  Physical* failed = nullptr;
  for (Physical* p = list.first; p != nullptr; p = p->next) {
    status = count(driver_.map(driver_.self, at, p->bytes, p->handle));
    if (status != Status::ok) {
      failed = p;
      break;
    }
    p->address = at;
    p->region = &region;
    for (std::size_t i = 0; i < p->bytes / driver_.granularity; ++i) {
      region.units[unit_index(region, at) + i].physical = p;
    }
    at += p->bytes;
  }
  if (status == Status::ok) {
    status = count(driver_.set_access(driver_.self, target->address, target->bytes));
  }
  if (status == Status::ok) {
    for (Physical* p = list.first; p != nullptr; p = p->next) {
      if (p->pool == region.pool) continue;
      count_out(p);
      count_in(p, region.pool);
    }
    return status;
  }
  for (Physical* p = list.first; p != failed; p = p->next) {
    if (count(driver_.unmap(driver_.self, p->address, p->bytes, p->handle)) == Status::ok) {
      set_unmapped(p);
    }
  }
  return status;
}

// Cleans up after a failed grow. Unmapped handles are kept for the next miss. The target becomes a
// hole, or stuck while one of its handles could not be unmapped.
void Space::undo(Block* target, const List& list) noexcept {
  bool clean = true;
  for (Physical* p = list.first; p != nullptr;) {
    Physical* next = p->next;
    p->next = nullptr;
    if (p->address == 0) {
      keep_unmapped(p);
    } else {
      clean = false;
    }
    p = next;
  }
  if (clean) {
    insert_hole(target);
  } else {
    target->state = State::stuck;
    counters_.stuck += target->bytes;
  }
}

Status Space::grow(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                   Donors whose) noexcept {
  // Joining idle blocks may have made room already.
  if (fit(pool, stream, bytes) != nullptr) return Status::ok;
  Place place = choose(pool, stream, bytes);
  if (place.hole == nullptr) {
    Status status = reserve(pool, bytes);
    if (status != Status::ok && whose == Donors::all) {
      release_regions();
      status = reserve(pool, bytes);
    }
    if (status != Status::ok) return status;
    place = choose(pool, stream, bytes);
  }
  Pool& own = pools_[pool];
  own.holes.erase(own.holes.iterator_to(*place.hole));
  place.hole->state = State::claimed;
  for (Block* side : {place.left, place.right}) {
    if (side == nullptr) continue;
    own.free.erase(own.free.iterator_to(*side));
    side->state = State::claimed;  // its handles stay mapped
  }

  List list;
  std::size_t remaining = place.need;
  std::size_t room = place.hole->bytes - place.need;
  take_unmapped(list, remaining, room);
  room = place.hole->bytes - std::max(list.bytes, place.need);
  Block* donors =
      whose != Donors::none && remaining > 0 ? claim_donors(remaining, stream, whose) : nullptr;
  Status status = create(list, remaining, room, pool);

  // All memory is at hand: cut the target out of the hole.
  std::size_t total = list.bytes;
  for (const Block* d = donors; d != nullptr; d = d->quick_next) total += d->bytes;
  Block* target = place.hole;
  if (status == Status::ok && total < place.hole->bytes) {
    Block* rest = split(place.hole, place.at_end ? place.hole->bytes - total : total);
    if (rest == nullptr) {
      status = Status::out_of_memory;
    } else {
      if (place.at_end) std::swap(rest, target);
      insert_hole(rest);
    }
  }
  if (status == Status::ok && donors != nullptr) {
    ++counters_.stitches;
    for (const Block* d = donors; d != nullptr; d = d->quick_next)
      counters_.moved_bytes += d->bytes;
    status = unmap_donors(donors, list);
  } else {
    while (donors != nullptr) {
      Block* next = donors->quick_next;
      donors->quick_next = nullptr;
      insert_free(donors);
      donors = next;
    }
  }
  if (status == Status::ok) status = map_all(target, list);

  if (status == Status::ok) {
    target->stream = stream;
    target->free_number = 0;  // nothing on the device uses it
    insert_free(target);
  } else {
    undo(target, list);
  }
  for (Block* side : {place.left, place.right}) {
    if (side != nullptr) insert_free(side);
  }
  return status;
}

}  // namespace cinch::allocator
