// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/two_valued.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class TwoValuedReference final : public TwoValuedCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::size_t size = element_size(what.type);
    std::fill_n(out.data(), encoded_bytes(what), std::byte{0});
    std::array<std::uint64_t, 2> pattern = {0, 0};
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t bits = load_bits(source, offset_of(what.layout, k), size);
      if (k == 0) pattern = {bits, bits};
      if (bits == pattern[0]) continue;
      if (pattern[1] == pattern[0]) pattern[1] = bits;
      if (bits != pattern[1]) return {};
      put_bits(out.subspan(2 * size), k, 1, 1);
    }
    std::memcpy(out.data(), &pattern[0], size);
    std::memcpy(out.data() + size, &pattern[1], size);
    return {true, encoded_bytes(what)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const std::array<std::uint64_t, 2> pattern = {load_bits(in.data(), 0, size),
                                                  load_bits(in.data(), 1, size)};
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      store_bits(target, offset_of(what.layout, k), size,
                 pattern[get_bits(in.subspan(2 * size), k, 1)]);
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_two_valued_reference() {
  return std::make_shared<TwoValuedReference>();
}

}  // namespace cinch::codecs
