// SPDX-License-Identifier: Apache-2.0
// Growing: where memory for a miss is mapped, and the steps of getting it there.
#include <algorithm>
#include <new>

#include "allocator/space/space.h"

namespace cinch::allocator {
namespace {

bool is_free_for(const Block* block, std::uint32_t stream) {
  return block != nullptr && block->state == State::free && block->stream == stream;
}

}  // namespace

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
      place.need = in_granules(bytes - std::max(l, r));
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
  bytes = in_granules(bytes);
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

// Chooses a place, after reserving more addresses where there is none.
Status Space::find_place(std::size_t pool, std::uint32_t stream, std::size_t bytes, Donors whose,
                         Place& place) noexcept {
  place = choose(pool, stream, bytes);
  if (place.hole != nullptr) return Status::ok;
  Status status = reserve(pool, bytes);
  if (status != Status::ok && whose == Donors::all) {
    release_regions();
    status = reserve(pool, bytes);
  }
  if (status == Status::ok) place = choose(pool, stream, bytes);
  return status;
}

// Queries the stream, or all if all may give. Also all when much is leaving: a stream that misses
// no more would keep the addresses that its memory left.
void Space::learn_what_is_done(std::uint32_t stream, Donors whose) noexcept {
  if (whose == Donors::all) {
    look_for_idle();
  } else if (counters_.leaving.current > counters_.reserved / 2) {
    query_all();
  } else {
    order_.query(stream);
  }
}

// Takes the place's blocks out of their trees. The free ones' handles stay mapped.
void Space::claim(std::size_t pool, const Place& place) noexcept {
  Pool& own = pools_[pool];
  own.holes.erase(own.holes.iterator_to(*place.hole));
  place.hole->state = State::claimed;
  for (Block* side : {place.left, place.right}) {
    if (side == nullptr) continue;
    own.free.erase(own.free.iterator_to(*side));
    side->state = State::claimed;
  }
}

// Cuts `bytes` out of a claimed place's hole; the rest becomes a hole again. Null when there is no
// memory for a second block.
Block* Space::cut_target(const Place& place, std::size_t bytes) noexcept {
  Block* target = place.hole;
  if (bytes >= target->bytes) return target;
  Block* rest = split(target, place.at_end ? target->bytes - bytes : bytes);
  if (rest == nullptr) return nullptr;
  if (place.at_end) std::swap(rest, target);
  insert_hole(rest);
  return target;
}

Status Space::grow(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                   Donors whose) noexcept {
  // Joining idle blocks may have made room already.
  if (fit(pool, stream, bytes) != nullptr) return Status::ok;
  if (whose != Donors::none) {
    learn_what_is_done(stream, whose);
    unmap_left();
  }
  Place place;
  if (const Status status = find_place(pool, stream, bytes, whose, place); status != Status::ok) {
    return status;
  }
  claim(pool, place);

  List list;
  std::size_t remaining = place.need;
  take_unmapped(list, remaining, place.hole->bytes - place.need);
  Block* donors =
      whose != Donors::none && remaining > 0 ? claim_donors(remaining, stream, whose) : nullptr;
  const std::size_t room = place.hole->bytes - std::max(list.bytes, place.need);
  Status status = create(list, remaining, room, pool);

  Block* target = place.hole;
  if (status == Status::ok) {  // all memory is at hand
    std::size_t total = list.bytes;
    for (const Block* d = donors; d != nullptr; d = d->quick_next) total += d->bytes;
    target = cut_target(place, total);
    if (target == nullptr) {
      target = place.hole;
      status = Status::out_of_memory;
    }
  }
  Block* busy = nullptr;
  status = take_donors(donors, list, busy, status);
  if (status == Status::ok) status = map_all(target, list);
  const std::uint64_t last_free = settle_busy(busy, status == Status::ok);

  if (status == Status::ok) {
    target->stream = stream;
    target->free_number = last_free;  // 0: nothing on the device uses its memory
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
