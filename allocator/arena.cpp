// SPDX-License-Identifier: Apache-2.0
#include "allocator/arena.h"

#include <algorithm>
#include <bit>
#include <new>

namespace cinch::allocator {
namespace {

// How many free pieces of a request's own class are looked at, of which some are too small.
constexpr int most_looked_at = 8;

constexpr std::uint32_t last_bit = 63;

constexpr std::uint64_t bit_of(std::uint32_t stream) noexcept {
  return std::uint64_t{1} << std::min(stream, last_bit);
}

}  // namespace

Arena::Arena(Core& core, const Config& config) : core_(core), config_(config) {}

Arena::~Arena() {
  for (const auto& segment : segments_) core_.free(segment->address);
  for (const StreamState& state : streams_) {
    if (state.fence != nullptr) core_.drop(state.fence);
  }
}

std::size_t Arena::rounded(std::size_t bytes) const noexcept {
  return (std::max<std::size_t>(bytes, 1) + config_.quantum - 1) & ~(config_.quantum - 1);
}

// Sizes in quanta that have the same four leading bits are of one class.
std::size_t Arena::class_of(std::size_t bytes) const noexcept {
  const std::size_t quanta = bytes / config_.quantum;
  const int width = std::bit_width(quanta);
  const int shift = width > 4 ? width - 4 : 0;
  return static_cast<std::size_t>(shift) * steps_per_doubling + (quanta >> shift);
}

// For a request that no segment has room for: several of its size. Where much is free that it can't
// have, just what it needs.
std::size_t Arena::segment_bytes(std::size_t bytes) const noexcept {
  const std::size_t wanted =
      std::clamp(peak_used_ / config_.share, config_.least_segment, config_.most_segment);
  if (reserved_ - used_ > wanted + used_ / config_.share) return bytes;
  return bytes * std::max<std::size_t>(1, wanted / bytes);
}

std::uint32_t Arena::index_of(Stream stream) noexcept {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].stream == stream) return i;
  }
  try {
    streams_.push_back({.stream = stream});
  } catch (const std::bad_alloc&) {
    return no_stream;
  }
  return static_cast<std::uint32_t>(streams_.size() - 1);
}

bool Arena::fence(StreamState& state) noexcept {
  Moment* const now = core_.moment(state.stream);
  if (now == nullptr) return false;
  if (state.fence != nullptr) core_.drop(state.fence);
  state.fence = now;
  state.fenced = frees_;
  state.waiting = 0;
  return true;
}

// What `stream` is given next comes after all that these had been given up to their last free.
bool Arena::order(std::uint32_t stream, const Users& after) noexcept {
  const std::uint64_t own = stream < last_bit ? bit_of(stream) : 0;
  if ((after.streams & ~own) == 0) return true;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (i == stream || (after.streams & bit_of(i)) == 0) continue;
    StreamState& state = streams_[i];
    if ((state.fence == nullptr || state.fenced < after.freed) && !fence(state)) return false;
    if (stream < last_bit && (state.waiting & own) != 0) continue;
    if (!core_.happened(state.fence) && !core_.wait(streams_[stream].stream, state.fence)) {
      return false;
    }
    state.waiting |= own;
  }
  return true;
}

void Arena::append(Piece* piece) noexcept {
  List& list = free_[class_of(piece->bytes)];
  piece->previous = list.last;
  piece->next = nullptr;
  (list.last == nullptr ? list.first : list.last->next) = piece;
  list.last = piece;
}

void Arena::unlink(Piece* piece) noexcept {
  List& list = free_[class_of(piece->bytes)];
  (piece->previous == nullptr ? list.first : piece->previous->next) = piece->next;
  (piece->next == nullptr ? list.last : piece->next->previous) = piece->previous;
}

// The piece of its class, or the next one, that has been free for longest.
Arena::Piece* Arena::reuse(std::size_t bytes, std::uint32_t stream) noexcept {
  const std::size_t own = class_of(bytes);
  int looked_at = 0;
  Piece* piece = free_[own].first;
  while (piece != nullptr && piece->bytes < bytes) {
    piece = ++looked_at < most_looked_at ? piece->next : nullptr;
  }
  if (piece == nullptr && own + 1 < classes) piece = free_[own + 1].first;
  if (piece == nullptr || piece->bytes < bytes || !order(stream, piece->users)) return nullptr;
  unlink(piece);
  return piece;
}

// From the segment with the least room that suffices; where that would have to wait for other
// streams and no event can be recorded now, from one that has not to.
Arena::Piece* Arena::cut(std::size_t bytes, std::uint32_t stream) noexcept {
  const auto fitting = [&](std::uint64_t but) {
    Segment* best = nullptr;
    for (const auto& segment : segments_) {
      const std::size_t room = segment->bytes - segment->cut;
      if (room < bytes || (segment->users.streams & but) != 0) continue;
      if (best == nullptr || room < best->bytes - best->cut) best = segment.get();
    }
    return best;
  };
  Segment* best = fitting(0);
  if (best != nullptr && !order(stream, best->users)) {
    best = stream < last_bit ? fitting(~bit_of(stream)) : nullptr;
  }
  Piece* const piece = best == nullptr ? nullptr : pieces_.take();
  if (piece == nullptr) return nullptr;
  piece->address = best->address + best->cut;
  piece->bytes = bytes;
  piece->segment = best;
  piece->cut_before = best->last;
  best->last = piece;
  best->cut += bytes;
  return piece;
}

// pre: the piece is free and in no list
Address Arena::give_out(Piece* piece, std::uint32_t stream) noexcept {
  if (!table_.insert(piece->address, piece)) {
    append(piece);
    uncut(*piece->segment);
    return 0;
  }
  piece->used = true;
  piece->users = {bit_of(stream), 0};
  ++piece->segment->live;
  used_ += piece->bytes;
  peak_used_ = std::max(peak_used_, used_);
  return piece->address;
}

// Asks the core without our lock: it may ask the stash, and that this arena, for memory.
bool Arena::add_segment(std::size_t bytes, Stream stream) noexcept {
  const Address address = core_.allocate(bytes, stream);
  if (address == 0) return false;
  try {
    auto segment = std::make_unique<Segment>();
    const std::lock_guard lock(mutex_);
    segment->address = address;
    segment->bytes = bytes;
    segment->home = index_of(stream);
    if (segment->home == no_stream) throw std::bad_alloc();
    // The core's word holds for this stream only; others come after what it did so far.
    segment->users = {bit_of(segment->home), ++frees_};
    segments_.push_back(std::move(segment));
    reserved_ += bytes;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    return true;
  } catch (const std::bad_alloc&) {
    core_.free(address);
    return false;
  }
}

Address Arena::allocate(std::size_t bytes, Stream stream) {
  if (bytes > SIZE_MAX / 4) return 0;
  bytes = rounded(bytes);
  for (bool added = false;; added = true) {
    std::size_t wanted = 0;
    {
      const std::lock_guard lock(mutex_);
      const std::uint32_t index = index_of(stream);
      if (index == no_stream) return 0;
      Piece* piece = reuse(bytes, index);
      if (piece == nullptr) piece = cut(bytes, index);
      const Address address = piece == nullptr ? 0 : give_out(piece, index);
      if (added) give_back_idle();  // where what was added was not used
      if (added || address != 0) return address;
      wanted = segment_bytes(bytes);
    }
    if (!add_segment(wanted, stream) && (wanted == bytes || !add_segment(bytes, stream))) return 0;
  }
}

bool Arena::record_stream(Address address, Stream stream) {
  const std::lock_guard lock(mutex_);
  Piece* const piece = table_.find(address);
  const std::uint32_t index = piece == nullptr ? no_stream : index_of(stream);
  if (index == no_stream) return false;
  piece->users.streams |= bit_of(index);
  return true;
}

bool Arena::free(Address address) {
  const std::lock_guard lock(mutex_);
  Piece* const piece = table_.find(address);
  if (piece == nullptr) return false;
  table_.erase(address);
  piece->users.freed = ++frees_;
  piece->used = false;
  used_ -= piece->bytes;
  append(piece);
  Segment& segment = *piece->segment;
  --segment.live;
  uncut(segment);
  if (segment.live == 0) give_back(segment);
  return true;
}

// The bytes of the last pieces that are free can be cut again.
void Arena::uncut(Segment& segment) noexcept {
  while (segment.last != nullptr && !segment.last->used) {
    Piece* const piece = segment.last;
    unlink(piece);
    segment.last = piece->cut_before;
    segment.cut -= piece->bytes;
    segment.users.streams |= piece->users.streams;
    segment.users.freed = std::max(segment.users.freed, piece->users.freed);
    pieces_.give(piece);
  }
}

void Arena::give_back_idle() noexcept {
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (segments_[i]->live == 0) give_back(*segments_[i]);
  }
}

// Where the core has no memory to note the streams, the segment stays and serves the next request.
void Arena::give_back(Segment& segment) noexcept {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (i == segment.home || (segment.users.streams & bit_of(i)) == 0) continue;
    if (!core_.record_stream(segment.address, streams_[i].stream)) return;
  }
  reserved_ -= segment.bytes;
  core_.free(segment.address);
  std::erase_if(segments_, [&](const auto& one) { return one.get() == &segment; });
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
    if (segment->last != nullptr && !segment->last->used)
      return wrong("free bytes are not cut again");
    Address end = segment->address + segment->cut;
    std::size_t live = 0;
    for (const Piece* p = segment->last; p != nullptr; p = p->cut_before) {
      if (p->address + p->bytes != end || p->segment != segment.get()) return wrong("no tiling");
      end = p->address;
      if (p->bytes % config_.quantum != 0) return wrong("a piece's size");
      if ((table_.find(p->address) == p) != p->used) return wrong("table and pieces differ");
      if (p->used) {
        ++live;
        used += p->bytes;
      } else {
        ++free_pieces;
      }
    }
    if (end != segment->address) return wrong("a gap in a segment");
    if (live != segment->live) return wrong("live pieces miscounted");
    used_pieces += live;
  }
  std::size_t listed = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    const Piece* before = nullptr;
    for (const Piece* p = free_[i].first; p != nullptr; before = p, p = p->next) {
      ++listed;
      if (p->used || p->previous != before || class_of(p->bytes) != i) return wrong("a free list");
    }
    if (free_[i].last != before) return wrong("a free list's end");
  }
  if (listed != free_pieces) return wrong("free pieces lost");
  if (used != used_ || used_pieces != table_.size() || reserved != reserved_) {
    return wrong("bytes not conserved");
  }
  if (pieces_.used() != used_pieces + free_pieces) return wrong("pieces lost");
  return true;
}

}  // namespace cinch::allocator
