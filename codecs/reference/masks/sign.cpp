// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/sign.h"

#include <algorithm>
#include <span>

#include "codecs/element_bits.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class SignReference final : public SignCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::size_t size = element_size(what.type);
    std::fill_n(out.data(), encoded_bytes(what), std::byte{0});
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t bits = load_bits(source, offset_of(what.layout, k), size);
      if (is_nan_pattern(what.type, bits)) return {};
      put_bits(out, k, 1, is_positive_pattern(what.type, bits));
    }
    return {true, encoded_bytes(what)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t bits = get_bits(in, k, 1) != 0 ? bits_of_one(what.type) : 0;
      store_bits(target, offset_of(what.layout, k), size, bits);
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_sign_reference() {
  return std::make_shared<SignReference>();
}

}  // namespace cinch::codecs
