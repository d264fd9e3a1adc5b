// SPDX-License-Identifier: Apache-2.0
#include "codecs/with_sign.h"

#include <algorithm>
#include <atomic>
#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"
#include "codecs/sign.h"

namespace cinch::codecs {
namespace {

class WithSignCpu final : public WithSignCodec {
 public:
  using WithSignCodec::WithSignCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(with_sign_bytes(what.layout));
    const auto bits = static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
    std::fill(out.begin() + bits, out.begin() + before, std::byte{0});
    std::atomic<bool> negative = false;
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          if (!cpu::encode_positives(size, run, count, bits_of_infinity(what.type),
                                     out.data() + begin / 8)) {
            negative.store(true, std::memory_order_relaxed);
          }
          return true;
        });
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable && good && !negative.load(), before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    if (reads == Reads::sign) return sign_->decode(what, in, target, reads, parallel);
    const auto before = static_cast<std::size_t>(with_sign_bytes(what.layout));
    return inner().decode(what, in.subspan(before), target, reads, parallel) &&
           zero_where_clear(what, in.data(), target, parallel);
  }

 private:
  static bool zero_where_clear(const Description& what, const std::byte* bits, void* target,
                               ParallelFor parallel) {
    const auto size = static_cast<std::int64_t>(element_size(what.type));
    const std::uint32_t infinity = bits_of_infinity(what.type);
    const PlaneLayout& layout = what.layout;
    if (layout.is_contiguous()) {
      for_range(parallel, layout.elements(), cpu::kRunElements,
                [&](std::int64_t begin, std::int64_t end) {
                  cpu::zero_others(size, bits + begin / 8, end - begin, infinity,
                                   static_cast<std::byte*>(target) + begin * size);
                });
      return true;
    }
    std::atomic<bool> good = true;
    const std::int64_t tile = cpu::planes_per_tile(layout, size);
    for_range(parallel, layout.planes(), tile, [&](std::int64_t begin, std::int64_t end) {
      auto* const run = cpu::workspace().tile.get<std::byte>(tile * layout.plane_size() * size);
      if (run == nullptr) good.store(false);
      for (std::int64_t p = begin; p < end && good.load(std::memory_order_relaxed); p += tile) {
        const std::int64_t count = std::min(tile, end - p);
        cpu::gather_planes(layout, size, target, p, count, run);
        cpu::zero_others(size, bits + p * layout.plane_size() / 8, count * layout.plane_size(),
                         infinity, run);
        cpu::scatter_planes(layout, size, run, p, count, target);
      }
      cpu::workspace().tile.trim();
    });
    return good.load();
  }

  std::shared_ptr<const Codec> sign_ = make_sign_cpu();
};

}  // namespace

std::shared_ptr<const Codec> make_with_sign_cpu(std::shared_ptr<const Codec> inner) {
  return std::make_shared<WithSignCpu>(std::move(inner));
}

}  // namespace cinch::codecs
