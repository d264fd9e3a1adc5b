// SPDX-License-Identifier: Apache-2.0
#include "allocator/arena.h"

#include <algorithm>
#include <bit>
#include <new>

namespace cinch::allocator {
namespace {

// Idle segments are kept up to the most that was used, and so much more.
constexpr std::size_t kept_share = 8;

}  // namespace

Arena::Arena(Core& core, const Config& config) : core_(core), config_(config) {}

Arena::~Arena() {
  for (const auto& segment : segments_) {
    for (Piece* piece = segment->pieces; piece != nullptr; piece = piece->next_in_segment) {
      if (piece->moment != nullptr) core_.drop(piece->moment);
    }
    for (Moment* moment : segment->moments) core_.drop(moment);
    core_.free(segment->address);
  }
}

// The class, and its size. Sizes in quanta have four leading bits at most: 8 classes a doubling.
std::size_t Arena::class_of(std::size_t& bytes) const noexcept {
  const std::size_t quanta =
      std::max<std::size_t>(1, (bytes + config_.quantum - 1) / config_.quantum);
  const int width = std::bit_width(quanta);
  const int shift = width > 4 ? width - 4 : 0;
  const std::size_t leading = (quanta + (std::size_t{1} << shift) - 1) >> shift;
  bytes = (leading << shift) * config_.quantum;
  return static_cast<std::size_t>(shift) * steps_per_doubling + leading;
}

void Arena::append(Piece* piece) noexcept {
  List& list = free_[piece->size_class];
  piece->previous = list.last;
  piece->next = nullptr;
  (list.last == nullptr ? list.first : list.last->next) = piece;
  list.last = piece;
}

void Arena::unlink(Piece* piece) noexcept {
  List& list = free_[piece->size_class];
  (piece->previous == nullptr ? list.first : piece->previous->next) = piece->next;
  (piece->next == nullptr ? list.last : piece->next->previous) = piece->previous;
}

void Arena::forget_passed(Segment& segment) noexcept {
  std::erase_if(segment.moments, [this](Moment* moment) {
    if (!core_.happened(moment)) return false;
    core_.drop(moment);
    return true;
  });
}

// The piece that has been free for longest, whose moment is the likeliest to have passed.
Arena::Piece* Arena::reuse(std::size_t size_class, Stream stream) noexcept {
  Piece* piece = free_[size_class].first;
  if (piece == nullptr) return nullptr;
  if (piece->moment != nullptr) {
    if (!core_.happened(piece->moment) && !core_.wait(stream, piece->moment)) return nullptr;
    core_.drop(piece->moment);
    piece->moment = nullptr;
  }
  unlink(piece);
  return piece;
}

// From the segment with the least room that suffices.
Arena::Piece* Arena::cut(std::size_t size_class, std::size_t bytes, Stream stream) noexcept {
  Segment* best = nullptr;
  for (const auto& segment : segments_) {
    const std::size_t room = segment->bytes - segment->cut;
    if (room >= bytes && (best == nullptr || room < best->bytes - best->cut)) best = segment.get();
  }
  if (best == nullptr) return nullptr;
  forget_passed(*best);
  for (Moment* moment : best->moments) {
    if (!core_.wait(stream, moment)) return nullptr;
  }
  Piece* piece = pieces_.take();
  if (piece == nullptr) return nullptr;
  piece->address = best->address + best->cut;
  piece->bytes = bytes;
  piece->segment = best;
  piece->size_class = size_class;
  piece->next_in_segment = best->pieces;
  best->pieces = piece;
  best->cut += bytes;
  return piece;
}

// pre: the piece is free and in no list
Address Arena::give_out(Piece* piece) noexcept {
  if (!table_.insert(piece->address, piece)) {
    append(piece);
    return 0;
  }
  piece->used = true;
  ++piece->segment->live;
  used_ += piece->bytes;
  peak_used_ = std::max(peak_used_, used_);
  most_now_ = std::max(most_now_, used_);
  return piece->address;
}

// Asks the core without our lock: it may ask the stash, and that this arena, for memory.
bool Arena::add_segment(std::size_t bytes, Stream stream) noexcept {
  const Address address = core_.allocate(bytes, stream);
  if (address == 0) return false;
  // The core's word holds for this stream only; other streams wait for this moment.
  Moment* moment = core_.moment(stream);
  try {
    if (moment == nullptr) throw std::bad_alloc();
    auto segment = std::make_unique<Segment>();
    segment->address = address;
    segment->bytes = bytes;
    segment->stream = stream;
    segment->moments.push_back(moment);
    const std::lock_guard lock(mutex_);
    segments_.push_back(std::move(segment));
    reserved_ += bytes;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    return true;
  } catch (const std::bad_alloc&) {
    if (moment != nullptr) core_.drop(moment);
    core_.free(address);
    return false;
  }
}

Address Arena::allocate(std::size_t bytes, Stream stream) {
  if (bytes > SIZE_MAX / 4) return 0;
  const std::size_t size_class = class_of(bytes);
  for (bool added = false;; added = true) {
    {
      const std::lock_guard lock(mutex_);
      Piece* piece = reuse(size_class, stream);
      if (piece == nullptr) piece = cut(size_class, bytes, stream);
      if (piece != nullptr) return give_out(piece);
    }
    if (added || (!add_segment(std::max(bytes, config_.segment_bytes), stream) &&
                  (bytes >= config_.segment_bytes || !add_segment(bytes, stream)))) {
      return 0;
    }
  }
}

bool Arena::free(Address address, Moment* moment) {
  const std::lock_guard lock(mutex_);
  Piece* piece = table_.find(address);
  if (piece == nullptr) return false;
  table_.erase(address);
  if (moment != nullptr) {
    core_.retain(moment);
    piece->moment = moment;
  }
  piece->used = false;
  used_ -= piece->bytes;
  append(piece);
  if (--piece->segment->live == 0) start_anew(*piece->segment);
  return true;
}

// Its pieces are forgotten; what they left to wait for is the whole segment's now.
void Arena::start_anew(Segment& segment) noexcept {
  std::size_t moments = 0;
  for (const Piece* p = segment.pieces; p != nullptr; p = p->next_in_segment) {
    moments += p->moment != nullptr ? 1 : 0;
  }
  try {
    segment.moments.reserve(segment.moments.size() + moments);
  } catch (const std::bad_alloc&) {
    return;  // its pieces stay as they are
  }
  while (segment.pieces != nullptr) {
    Piece* piece = segment.pieces;
    segment.pieces = piece->next_in_segment;
    unlink(piece);
    if (piece->moment != nullptr) {
      const bool known = std::ranges::find(segment.moments, piece->moment) != segment.moments.end();
      if (known || core_.happened(piece->moment)) {
        core_.drop(piece->moment);
      } else {
        segment.moments.push_back(piece->moment);
      }
    }
    pieces_.give(piece);
  }
  segment.cut = 0;
}

// False, and the segment stays, when the driver failed. pre: its pieces are all free
bool Arena::give_back(std::size_t index) noexcept {
  Segment& segment = *segments_[index];
  if (segment.pieces != nullptr) return false;
  forget_passed(segment);
  for (Moment* moment : segment.moments) {
    if (!core_.wait(segment.stream, moment)) return false;
  }
  for (Moment* moment : segment.moments) core_.drop(moment);
  reserved_ -= segment.bytes;
  core_.free(segment.address);
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

std::size_t Arena::trim(std::size_t keep) noexcept {
  const std::size_t before = reserved_;
  for (std::size_t i = segments_.size(); i-- > 0 && reserved_ > keep;) {
    if (segments_[i]->live == 0) give_back(i);
  }
  return before - reserved_;
}

void Arena::new_period() {
  const std::lock_guard lock(mutex_);
  const std::size_t most = std::max(most_before_, most_now_);
  most_before_ = most_now_;
  most_now_ = used_;
  trim(most == 0 ? 0 : most + most / kept_share + config_.segment_bytes);
}

std::size_t Arena::release_idle() {
  const std::lock_guard lock(mutex_);
  return trim(0);
}

Arena::Figures Arena::figures() const {
  const std::lock_guard lock(mutex_);
  return {used_, reserved_, peak_used_, peak_reserved_, segments_.size(), table_.size()};
}

bool Arena::verify(std::string& fault) const {
  const std::lock_guard lock(mutex_);
  const auto wrong = [&fault](const char* what) {
    fault = what;
    return false;
  };
  std::size_t used = 0;
  std::size_t used_pieces = 0;
  std::size_t free_pieces = 0;
  std::size_t reserved = 0;
  for (const auto& segment : segments_) {
    reserved += segment->bytes;
    if (core_.size_of(segment->address) < segment->bytes)
      return wrong("a segment is not the core's");
    Address end = segment->address + segment->cut;
    std::size_t live = 0;
    for (const Piece* p = segment->pieces; p != nullptr; p = p->next_in_segment) {
      if (p->address + p->bytes != end || p->segment != segment.get()) return wrong("no tiling");
      end = p->address;
      std::size_t bytes = p->bytes;
      if (class_of(bytes) != p->size_class || bytes != p->bytes) return wrong("a piece's class");
      if ((table_.find(p->address) == p) != p->used) return wrong("table and pieces differ");
      if (p->used) {
        ++live;
        used += p->bytes;
        if (p->moment != nullptr) return wrong("a used piece waits");
      } else {
        ++free_pieces;
      }
    }
    if (end != segment->address) return wrong("a gap in a segment");
    if (live != segment->live) return wrong("live pieces miscounted");
    used_pieces += live;
  }
  std::size_t listed = 0;
  for (const List& list : free_) {
    const Piece* before = nullptr;
    for (const Piece* p = list.first; p != nullptr; before = p, p = p->next) {
      ++listed;
      if (p->used || p->previous != before) return wrong("a free list");
    }
    if (list.last != before) return wrong("a free list's end");
  }
  if (listed != free_pieces) return wrong("free pieces lost");
  if (used != used_ || used_pieces != table_.size() || reserved != reserved_) {
    return wrong("bytes not conserved");
  }
  if (pieces_.used() != used_pieces + free_pieces) return wrong("pieces lost");
  return true;
}

}  // namespace cinch::allocator
