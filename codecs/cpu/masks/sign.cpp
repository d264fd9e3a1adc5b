// SPDX-License-Identifier: Apache-2.0
#include "codecs/sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/masks/sign.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/masks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// x > 0 of `count` elements that T holds the bit patterns of; false when there is a NaN, whose
/// pattern without the sign lies above that of `infinity`.
template <typename T>
HWY_INLINE bool encode_signs_as(const void* x, std::int64_t count, std::uint64_t infinity,
                                std::byte* out) {
  const MaskTag<T> d;
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto zero = hn::Zero(d);
  auto largest = zero;
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        largest = hn::Max(largest, hn::And(bits, magnitude_mask));
        return hn::Gt(bits, zero);
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, hn::Gt(largest, hn::Set(d, static_cast<T>(infinity))));
}

bool encode_signs(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                  std::byte* out) {
  return size == 4 ? encode_signs_as<std::int32_t>(x, count, infinity, out)
                   : encode_signs_as<std::int16_t>(x, count, infinity, out);
}

void decode_signs(std::size_t size, const std::byte* in, std::int64_t count, std::uint64_t one,
                  void* x) {
  const auto* bits = reinterpret_cast<const std::uint8_t*>(in);
  if (size == 4) {
    select(bits, count, static_cast<std::uint32_t>(one), 0U, static_cast<std::uint32_t*>(x));
  } else {
    select(bits, count, static_cast<std::uint16_t>(one), std::uint16_t{0},
           static_cast<std::uint16_t*>(x));
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <span>

#include "codecs/cpu/masks/sign.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_signs);
HWY_EXPORT(decode_signs);

}  // namespace

bool cpu::decode_sign_bits(const Description& what, const std::byte* bits, void* target,
                           ParallelFor parallel) {
  const std::size_t size = element_size(what.type);
  const auto kernel = HWY_DYNAMIC_DISPATCH(decode_signs);
  return write_runs(what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
    kernel(size, bits + begin / 8, count, bits_of_one(what.type), run);
  });
}

namespace {

class SignCpu final : public SignCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto kernel = HWY_DYNAMIC_DISPATCH(encode_signs);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return kernel(size, run, count, bits_of_infinity(what.type), out.data() + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    return cpu::decode_sign_bits(what, in.data(), target, parallel);
  }
};

}  // namespace

std::shared_ptr<const Codec> make_sign_cpu() {
  return std::make_shared<SignCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
