// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_bounds.h"

#include <algorithm>
#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/runs.h"

namespace cinch::codecs {
namespace {

class WithBoundCpu final : public WithBoundCodec {
 public:
  using WithBoundCodec::WithBoundCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    const auto bits = static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
    std::fill(out.begin() + bits, out.begin() + before, std::byte{0});
    // A NaN's key lies beyond infinity's.
    IntervalPatterns above = {};
    above.below = patterns(what.type).key;
    above.above = static_cast<std::int32_t>(key_of_infinity(what.type) + 1);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          cpu::encode_inside(size, run, count, above, bits_of_infinity(what.type),
                             out.data() + begin / 8);
          return true;
        });
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable && good, before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size())) return false;
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    const Reads of_inner = reads_of_inner(reads);
    if (!inner().decode(what, in.subspan(before), target, of_inner, parallel)) return false;
    if (of_inner != Reads::values) return true;
    const std::size_t size = element_size(what.type);
    return cpu::change_runs(
        what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
          cpu::agree_with_bound(size, in.data() + begin / 8, count, bits_of_infinity(what.type),
                                patterns(what.type), run);
        });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_with_bound_cpu(std::shared_ptr<const Codec> inner, Bound bound) {
  return std::make_shared<WithBoundCpu>(std::move(inner), bound);
}

}  // namespace cinch::codecs
