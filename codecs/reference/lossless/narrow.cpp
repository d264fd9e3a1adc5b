// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/narrow.h"

#include <algorithm>
#include <limits>
#include <span>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

std::int64_t integer_of(ElementType type, std::uint64_t bits) noexcept {
  switch (type) {
    case ElementType::uint8:
      return static_cast<std::uint8_t>(bits);
    case ElementType::int16:
      return static_cast<std::int16_t>(bits);
    case ElementType::int32:
      return static_cast<std::int32_t>(bits);
    default:
      return static_cast<std::int64_t>(bits);
  }
}

class NarrowReference final : public NarrowCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::int64_t n = what.layout.elements();
    const auto element = [&](std::int64_t k) {
      return integer_of(what.type,
                        load_bits(source, offset_of(what.layout, k), element_size(what.type)));
    };
    std::int64_t min = n == 0 ? 0 : std::numeric_limits<std::int64_t>::max();
    std::int64_t max = n == 0 ? 0 : std::numeric_limits<std::int64_t>::min();
    for (std::int64_t k = 0; k < n; ++k) {
      min = std::min(min, element(k));
      max = std::max(max, element(k));
    }
    const NarrowHeader header = NarrowHeader::of(what.type, min, max);
    if (header.bits > kNarrowMaxBits) return {};
    const std::size_t size = encoded_size(what.layout, header.bits);
    std::fill_n(out.data(), size, std::byte{0});
    header.write(out.data());
    for (std::int64_t k = 0; k < n; ++k) {
      put_bits(out.subspan(kNarrowHeaderBytes), k * header.bits, header.bits,
               static_cast<unsigned>(element(k) - min));
    }
    return {true, size};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    NarrowHeader header;
    if (!read_header(what, in, reads, header)) return false;
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t distance =
          get_bits(in.subspan(kNarrowHeaderBytes), k * header.bits, header.bits);
      store_bits(target, offset_of(what.layout, k), element_size(what.type),
                 static_cast<std::uint64_t>(header.min) + distance);
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_narrow_reference() {
  return std::make_shared<NarrowReference>();
}

}  // namespace cinch::codecs
