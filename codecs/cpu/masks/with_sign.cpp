// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/with_sign.h"

#include <algorithm>
#include <atomic>
#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/sign.h"

namespace cinch::codecs {
namespace {

class WithSignCpu final : public WithSignCodec {
 public:
  using WithSignCodec::WithSignCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    const auto bits = static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
    std::fill(out.begin() + bits, out.begin() + before, std::byte{0});
    std::atomic<bool> strange = false;
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          const bool any_negative = !cpu::encode_positives(
              size, run, count, bits_of_infinity(what.type), out.data() + begin / 8);
          if (any_negative && !may_be_negative()) strange.store(true, std::memory_order_relaxed);
          return true;
        });
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable && good && !strange.load(), before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    if (reads == Reads::sign) return sign_->decode(what, in, target, reads, parallel);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    return inner().decode(what, in.subspan(before), target, reads, parallel) &&
           (values() == SignedValues::any ||
            cpu::change_runs(what, target, parallel,
                             [&](std::int64_t begin, std::int64_t count, void* run) {
                               agree(what.type, in.data() + begin / 8, count, run);
                             }));
  }

 private:
  void agree(ElementType type, const std::byte* bits, std::int64_t count, void* x) const {
    const std::size_t size = element_size(type);
    if (values() == SignedValues::agreeing) {
      cpu::agree_with_signs(size, bits, count, bits_of_infinity(type), bits_of_least(type), x);
    } else {
      cpu::zero_others(size, bits, count, bits_of_infinity(type), x);
    }
  }

  std::shared_ptr<const Codec> sign_ = make_sign_cpu();
};

}  // namespace

std::shared_ptr<const Codec> make_with_sign_cpu(std::shared_ptr<const Codec> inner,
                                                SignedValues values) {
  return std::make_shared<WithSignCpu>(std::move(inner), values);
}

}  // namespace cinch::codecs
