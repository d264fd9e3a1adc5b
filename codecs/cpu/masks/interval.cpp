// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/interval.h"

#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"

namespace cinch::codecs {
namespace {

class IntervalCpu final : public IntervalCodec {
 public:
  using IntervalCodec::IntervalCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return cpu::encode_inside(size, run, count, patterns(what.type),
                                    bits_of_infinity(what.type), out.data() + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const IntervalPatterns& inside = patterns(what.type);
    return cpu::write_runs(what, target, parallel,
                           [&](std::int64_t begin, std::int64_t count, void* run) {
                             cpu::select_patterns(size, in.data() + begin / 8, count, inside.inside,
                                                  inside.outside, run);
                           });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_interval_cpu(IntervalBounds bounds) {
  return std::make_shared<IntervalCpu>(bounds);
}

}  // namespace cinch::codecs
