// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/raw.h"

#include <span>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class RawReference final : public RawCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::size_t size = element_size_or_byte(what.type);
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      store_bits(out.data(), k, size, load_bits(source, offset_of(what.layout, k), size));
    }
    return {true, encoded_bytes(what)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size_or_byte(what.type);
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      store_bits(target, offset_of(what.layout, k), size, load_bits(in.data(), k, size));
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_raw_reference() {
  return std::make_shared<RawReference>();
}

}  // namespace cinch::codecs
