// SPDX-License-Identifier: Apache-2.0
// Handles: which ones a miss gets, mapping them, and keeping them when that fails.
#include <algorithm>

#include "allocator/space/space.h"

namespace cinch::allocator {

void Space::List::append(Physical* physical) noexcept {
  physical->next = nullptr;
  (first == nullptr ? first : last->next) = physical;
  last = physical;
  bytes += physical->bytes;
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

std::size_t Space::page_bytes(std::size_t pool) const noexcept {
  if (pool == small) return in_granules(config_.small_page);
  const std::size_t share = counters_.reserved / config_.large_page_share;
  return in_granules(std::clamp(share, config_.least_large_page, config_.large_page));
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

void Space::set_units(Region& region, Address at, std::size_t bytes, Physical* physical) noexcept {
  const std::size_t first = unit_index(region, at);
  for (std::size_t i = 0; i < bytes / driver_.granularity; ++i) {
    region.units[first + i].physical = physical;
  }
}

// Notes that the driver has unmapped the handle from `at`.
void Space::set_unmapped(Physical* physical, Region& region, Address at) noexcept {
  set_units(region, at, physical->bytes, nullptr);
  if (physical->address != at) {
    --physical->old_mappings;
    return;
  }
  physical->address = 0;
  physical->region = nullptr;
}

// Unmaps what is mapped in a block that is leaving or stuck. Returns whether nothing is left.
bool Space::unmap_rest(Block* block) noexcept {
  Region& region = *block->region;
  bool clean = true;
  for (Address at = block->address; at < block->end();) {
    Physical* physical = physical_at(region, at);
    if (physical == nullptr) {
      at += driver_.granularity;
      continue;
    }
    const bool in_use_here = physical->address == at;
    if (count(driver_.unmap(driver_.self, at, physical->bytes, physical->handle)) == Status::ok) {
      set_unmapped(physical, region, at);
      if (in_use_here) keep_unmapped(physical);
    } else {
      clean = false;
    }
    at += physical->bytes;
  }
  return clean;
}

// Maps the list's handles over a claimed block of exactly their size; those that are mapped
// elsewhere stay so. On failure unmaps them from here again, where the driver does; `undo` handles
// the rest. The block is in no tree either way.
Status Space::map_all(Block* target, const List& list) noexcept {
  Region& region = *target->region;
  Address at = target->address;
  Status status = Status::ok;
  const Physical* failed = nullptr;
  for (Physical* p = list.first; p != nullptr; p = p->next) {
    status = count(driver_.map(driver_.self, at, p->bytes, p->handle));
    if (status != Status::ok) {
      failed = p;
      break;
    }
    set_units(region, at, p->bytes, p);
    at += p->bytes;
  }
  if (status == Status::ok) {
    status = count(driver_.set_access(driver_.self, target->address, target->bytes));
  }
  at = target->address;
  for (Physical* p = list.first; p != failed; at += p->bytes, p = p->next) {
    if (status == Status::ok) {
      use_at(p, region, at);
    } else {
      unmap_again(p, region, at);
    }
  }
  return status;
}

// Notes that the handle is used at `at`, where it is mapped, and no longer where it was.
void Space::use_at(Physical* physical, Region& region, Address at) noexcept {
  if (physical->address != 0) ++physical->old_mappings;
  physical->address = at;
  physical->region = &region;
  if (physical->pool == region.pool) return;
  count_out(physical);
  count_in(physical, region.pool);
}

// Unmaps a handle from where it was to move. If the driver will not, the mapping is an old one, or
// the only one.
void Space::unmap_again(Physical* physical, Region& region, Address at) noexcept {
  if (count(driver_.unmap(driver_.self, at, physical->bytes, physical->handle)) == Status::ok) {
    set_units(region, at, physical->bytes, nullptr);
  } else if (physical->address != 0) {
    ++physical->old_mappings;
  } else {
    physical->address = at;
    physical->region = &region;
  }
}

// Cleans up after a failed grow. Unmapped handles are kept for the next miss. The target becomes a
// hole, or stuck while one of its handles could not be unmapped.
void Space::undo(Block* target, const List& list) noexcept {
  for (Physical* p = list.first; p != nullptr;) {
    Physical* next = p->next;
    p->next = nullptr;
    if (p->address == 0) keep_unmapped(p);
    p = next;
  }
  bool clean = true;
  for (Address at = target->address; at < target->end(); at += driver_.granularity) {
    clean = clean && physical_at(*target->region, at) == nullptr;
  }
  if (clean) {
    insert_hole(target);
  } else {
    target->state = State::stuck;
    counters_.stuck += target->bytes;
  }
}

}  // namespace cinch::allocator
