// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_sign.h"

#include <algorithm>
#include <span>

#include "codecs/element_bits.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class WithSignReference final : public WithSignCodec {
 public:
  using WithSignCodec::WithSignCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    std::fill_n(out.data(), before, std::byte{0});
    bool strange = false;
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t bits = load_bits(source, offset_of(what.layout, k), size);
      put_bits(out, k, 1, is_positive_pattern(what.type, bits));
      strange |= is_negative_pattern(what.type, bits) && !may_be_negative();
    }
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable && !strange, before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    if (reads == Reads::values &&
        !inner().decode(what, in.subspan(before), target, reads, parallel)) {
      return false;
    }
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::int64_t offset = offset_of(what.layout, k);
      const bool positive = get_bits(in, k, 1) != 0;
      if (reads == Reads::sign) {
        store_bits(target, offset, size, positive ? bits_of_one(what.type) : 0);
        continue;
      }
      store_bits(target, offset, size,
                 signed_bits(what.type, load_bits(target, offset, size), positive, values()));
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_with_sign_reference(std::shared_ptr<const Codec> inner,
                                                      SignedValues values) {
  return std::make_shared<WithSignReference>(std::move(inner), values);
}

}  // namespace cinch::codecs
