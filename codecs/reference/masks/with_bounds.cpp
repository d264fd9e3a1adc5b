// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_bounds.h"

#include <algorithm>
#include <span>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class WithBoundReference final : public WithBoundCodec {
 public:
  using WithBoundCodec::WithBoundCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    std::fill_n(out.data(), before, std::byte{0});
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t bits = load_bits(source, offset_of(what.layout, k), size);
      const bool above = key_of(what.type, bits) > patterns(what.type).key;
      put_bits(out, k, 1, above && !is_nan_pattern(what.type, bits));
    }
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable, before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size())) return false;
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    const Reads of_inner = reads_of_inner(reads);
    if (!inner().decode(what, in.subspan(before), target, of_inner, parallel)) return false;
    for (std::int64_t k = 0; k < what.layout.elements() && of_inner == Reads::values; ++k) {
      const std::int64_t offset = offset_of(what.layout, k);
      store_bits(target, offset, size,
                 bounded_bits(what.type, load_bits(target, offset, size), get_bits(in, k, 1) != 0,
                              patterns(what.type)));
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_with_bound_reference(std::shared_ptr<const Codec> inner,
                                                       Bound bound) {
  return std::make_shared<WithBoundReference>(std::move(inner), bound);
}

}  // namespace cinch::codecs
