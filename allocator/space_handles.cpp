// SPDX-License-Identifier: Apache-2.0
// Handles: which ones a miss gets, mapping them, and keeping them when that fails.
#include <algorithm>

#include "allocator/space.h"

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

}  // namespace cinch::allocator
