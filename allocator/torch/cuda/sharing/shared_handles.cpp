// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/sharing/shared_handles.h"

#include <algorithm>
#include <cstring>

namespace cinch::allocator {
namespace {

constexpr char version = 2;    // SHAREABLE_HANDLE_VERSION of PyTorch 2.6 to 2.11
constexpr char uniform = 'e';  // SHAREABLE_CUDA_EXPANDABLE_SEGMENT
constexpr char mixed = 'i';
constexpr std::size_t prefix = 2;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

// c10's ExpandableSegment::ShareHeader, with its padding.
struct Header {
  std::int32_t process;
  std::uint32_t serial;
  std::uint64_t piece_bytes;  // 0 in a mixed text
  std::uint64_t count;
};
static_assert(sizeof(Header) == 24);

struct MixedPiece {
  std::uint64_t bytes;
  std::int64_t descriptor;
};

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(std::string_view& text) {
  T value{};
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

}  // namespace

std::size_t SharedHandles::bytes() const noexcept {
  std::size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes;
  return sum;
}

std::string SharedHandles::text() const {
  const std::uint64_t size = pieces.front().bytes;
  const bool same = std::ranges::all_of(pieces, [&](const Piece& p) { return p.bytes == size; });
  std::string text{version, same ? uniform : mixed};
  append(text, Header{process, serial, same ? size : 0, pieces.size()});
  for (const Piece& piece : pieces) {
    if (same) {
      append(text, piece.descriptor);
    } else {
      append(text, MixedPiece{piece.bytes, piece.descriptor});
    }
  }
  return text;
}

std::optional<SharedHandles> SharedHandles::parse(std::string_view text) {
  if (text.size() < prefix + sizeof(Header) || text[0] != version) return std::nullopt;
  const char kind = text[1];
  if (kind != uniform && kind != mixed) return std::nullopt;
  text.remove_prefix(prefix);
  const auto header = take<Header>(text);
  const std::size_t each = kind == uniform ? sizeof(std::int32_t) : sizeof(MixedPiece);
  // A fabric handle is longer than a descriptor: the length tells them apart.
  if (header.count == 0 || text.size() % each != 0 || header.count != text.size() / each) {
    return std::nullopt;
  }
  SharedHandles result{.process = header.process, .serial = header.serial, .pieces = {}};
  result.pieces.reserve(header.count);
  for (std::uint64_t i = 0; i < header.count; ++i) {
    Piece piece{header.piece_bytes, -1};
    if (kind == uniform) {
      piece.descriptor = take<std::int32_t>(text);
    } else {
      const auto own = take<MixedPiece>(text);
      piece = {own.bytes, static_cast<std::int32_t>(own.descriptor)};
    }
    if (piece.bytes == 0 || piece.bytes > most_bytes || piece.descriptor < 0) return std::nullopt;
    result.pieces.push_back(piece);
  }
  return result;
}

bool SharedHandles::is_ours(std::string_view text) noexcept {
  return text.size() >= prefix && text[0] == version && text[1] == mixed;
}

}  // namespace cinch::allocator
