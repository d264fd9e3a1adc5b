// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split.h"

#include <cstring>

#include "codecs/float_split_chunk.h"

namespace cinch::codecs {

bool FloatSplitCodec::accepts(const Description& what) const noexcept {
  return (is_quantizable(what.type) || what.type == ElementType::float64) && is_valid(what.layout);
}

std::size_t FloatSplitCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(bodies_offset(what.layout) +
                                  kSplitChunkHeaderBytes * chunk_count(what.layout)) +
         static_cast<std::size_t>(what.layout.elements()) * element_size(what.type);
}

void FloatSplitCodec::write_header(ElementType type, std::byte* out) noexcept {
  std::memset(out, 0, kSplitHeaderBytes);
  out[0] = std::byte{kSplitVersion};
  out[1] = static_cast<std::byte>(type);
}

bool FloatSplitCodec::can_decode(const Description& what, std::span<const std::byte> in,
                                 Reads reads) const noexcept {
  return reads != Reads::nothing && accepts(what) &&
         in.size() >= static_cast<std::size_t>(bodies_offset(what.layout)) &&
         in[0] == std::byte{kSplitVersion} && in[1] == static_cast<std::byte>(what.type);
}

std::span<const std::byte> FloatSplitCodec::chunk_bytes(const PlaneLayout& layout,
                                                        std::span<const std::byte> in,
                                                        std::int64_t index) noexcept {
  std::uint64_t begin = 0;
  std::uint64_t end;
  const std::byte* const ends = in.data() + kSplitHeaderBytes;
  if (index != 0) std::memcpy(&begin, ends + 8 * (index - 1), 8);
  std::memcpy(&end, ends + 8 * index, 8);
  const std::span<const std::byte> bodies = in.subspan(bodies_offset(layout));
  if (begin > end || end > bodies.size()) return {};
  return bodies.subspan(begin, end - begin);
}

}  // namespace cinch::codecs
