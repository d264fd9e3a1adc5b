// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/interval.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class IntervalReference final : public IntervalCodec {
 public:
  using IntervalCodec::IntervalCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::size_t size = element_size(what.type);
    std::fill_n(out.data(), encoded_bytes(what), std::byte{0});
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const float x = value_of(what.type, load_bits(source, offset_of(what.layout, k), size));
      if (std::isnan(x)) return {};
      put_bits(out, k, 1, is_inside(x, bounds()));
    }
    return {true, encoded_bytes(what)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const IntervalPatterns& pattern = patterns(what.type);
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      store_bits(target, offset_of(what.layout, k), size,
                 get_bits(in, k, 1) != 0 ? pattern.inside : pattern.outside);
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_interval_reference(IntervalBounds bounds) {
  return std::make_shared<IntervalReference>(bounds);
}

}  // namespace cinch::codecs
