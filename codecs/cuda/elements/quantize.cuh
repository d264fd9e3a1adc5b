// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/affine.h"
#include "codecs/cuda/device.h"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/elements/pairs.cuh"
#include "codecs/philox.h"

/// Quantizes a stretch in few instructions: affine_code's results, eight at a time.
namespace cinch::codecs::cuda {

/// a * b + c, rounded once.
CINCH_HD inline float fused(float a, float b, float c) noexcept {
  return __builtin_fmaf(a, b, c);
}

/// x / divisor, rounded to nearest. @param reciprocal 1 / divisor, rounded to nearest
/// @pre nothing on the way is subnormal or infinite, and divisor's significand isn't all ones
///
/// The first product is off by a unit in the last place at most, so the remainder is exact and one
/// correction is enough (Markstein, "Computation of Elementary Functions on the IBM RISC
/// System/6000 Processor", 1990).
CINCH_HD inline float corrected_quotient(float x, float divisor, float reciprocal) noexcept {
  const float quotient = x * reciprocal;
  return fused(fused(-quotient, divisor, x), reciprocal, quotient);
}

/// 1 / x, rounded to nearest, from an approximation that is off by some units in the last place.
/// @pre x has 8 significant bits, and neither x nor 1 / x is subnormal
///
/// The correction leaves a relative error below 2^-43, and 1 / x is never that near to the middle
/// between two floats: with 8 bits it is at least 2^-33 off.
CINCH_HD inline float corrected_reciprocal(float x, float approximate) noexcept {
  return fused(fused(-x, approximate, 1.0F), approximate, approximate);
}

__device__ __forceinline__ float approximate_reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0F / x;
#endif
}

/// Four bytes of eight: those that the selector's nibbles number, the lowest first.
__device__ __forceinline__ std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t both = a | std::uint64_t{b} << 32;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = selector >> (4 * i) & 7U;
    result |= static_cast<std::uint32_t>(both >> (8 * from) & 0xFFU) << (8 * i);
  }
  return result;
#endif
}

/// An AffineRange as floats.
struct FloatRange {
  float lo, step;

  /// The two as they are stored, lo in the lower half.
  __device__ __forceinline__ std::uint32_t word() const {
    return permute_bytes(float_bits(lo), float_bits(step), 0x7632);
  }
};

__device__ __forceinline__ FloatRange poisoned_floats() {
  return {0.0F, float_of_bf16(kPoisonedStep)};
}

/// Computes affine_range and affine_scale, with the same results, without divisions.
class RangeMaker {
 public:
  __device__ __forceinline__ explicit RangeMaker(int bits)
      : top_(static_cast<float>((1 << bits) - 1)), reciprocal_(1.0F / top_) {}

  __device__ __forceinline__ FloatRange range(float min, float max) const {
    constexpr std::uint32_t kUpper = 0xFFFF0000U;
    const std::uint32_t low = float_bits(min + 0.0F);  // -0 becomes +0
    // Rounded down: away from 0 if negative.
    const auto away = static_cast<std::uint32_t>(static_cast<std::int32_t>(low) >> 31) & 0xFFFFU;
    const float lo = float_of_bits((low + away) & kUpper);
    const float extent = max - lo;
    const float step = fmaxf(corrected_quotient(extent, top_, reciprocal_), kAffineMinStep);
    const std::uint32_t up = (float_bits(step) + 0xFFFFU) & kUpper;
    return {lo, extent > 0.0F ? float_of_bits(up) : 0.0F};
  }

  static __device__ __forceinline__ float scale(float step) {
    const float reciprocal = corrected_reciprocal(step, approximate_reciprocal(step));
    return step > 0.0F ? 65536.0F * reciprocal : 0.0F;
  }

 private:
  float top_, reciprocal_;
};

/// Philox's round keys. A kernel's parameters can be operands of its instructions, so rounds need
/// no instructions for keys that the host computed.
struct RoundKeys {
  std::uint32_t key0[philox::kRounds];
  std::uint32_t key1[philox::kRounds];
  std::uint32_t step_low, step_high;

  CINCH_HD explicit RoundKeys(RandomKey key) noexcept
      : step_low(static_cast<std::uint32_t>(key.step)),
        step_high(static_cast<std::uint32_t>(key.step >> 32)) {
    for (int round = 0; round < philox::kRounds; ++round) {
      key0[round] = key.seed + static_cast<std::uint32_t>(round) * philox::kWeyl0;
      key1[round] = key.entry + static_cast<std::uint32_t>(round) * philox::kWeyl1;
    }
  }

  /// philox::draw_block.
  __device__ __forceinline__ philox::Block draw_block(std::uint64_t index) const {
    philox::Block counter = {{static_cast<std::uint32_t>(index),
                              static_cast<std::uint32_t>(index >> 32), step_low, step_high}};
#pragma unroll
    for (int round = 0; round < philox::kRounds; ++round) {
      counter = philox::one_round(counter, key0[round], key1[round]);
    }
    return counter;
  }
};

/// The number whose bits are `sum`, plus draw `j` of eight.
__device__ __forceinline__ std::uint32_t add_draw(std::uint32_t sum, const philox::Block& draws,
                                                  int j) {
#ifdef __CUDA_ARCH__
  return __dp2a_lo(draws.word[j / 2], j % 2 == 0 ? 0x0001U : 0x0100U, sum);
#else
  return sum + (draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU);
#endif
}

/// t, but at least 0 and at most 1. Costs nothing behind a product.
__device__ __forceinline__ float saturated(float t) {
#ifdef __CUDA_ARCH__
  return __saturatef(t);
#else
  return t > 0.0F ? (t < 1.0F ? t : 1.0F) : 0.0F;
#endif
}

/// Packs codes of some number of bits.
class CodePacker {
 public:
  /// Up to this many bits, codes are packed as words, and no code can exceed 2^bits - 1: with
  /// t = (x - lo) * scale, rounding makes t less than (2^bits - 1) * 65536 * (1 + 2^-22), which
  /// rounds to no more than (2^bits - 1) * 65536.
  static constexpr int kFewBits = 4;

  __device__ __forceinline__ explicit CodePacker(std::uint32_t bits)
      : bits_(bits),
        factor_(1U << bits),
        all_(float_of_bits((127U + 16 + bits) << 23)),
        unit_(float_of_bits((127U - 16 - bits) << 23)),
        to_fours_(8 - 2 * bits),
        to_eights_(16 - 4 * bits),
        twos_(((1U << (2 * bits & 31)) - 1) * 0x10001U),
        fours_((1U << (4 * bits & 31)) - 1) {}

  /// The codes of a stretch, joined; what is above them is arbitrary.
  /// @param t (x - lo) * scale, as in affine_code
  __device__ __forceinline__ std::uint64_t pack(const float (&t)[kStretch],
                                                const philox::Block& draws) const {
    if (bits_ > kFewBits) return pack_many(t, draws);
    std::uint32_t sums[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      // Adding 2^23 rounds as rintf, and leaves the integer in the lower bits: the sum's third byte
      // is the code.
      sums[j] = add_draw(float_bits(t[j] + 0x1p23F), draws, j);
    }
    return join(sums);
  }

  /// What makes x - lo a share, from 0 to below 1, of as many steps as there are codes.
  /// @param scale affine_scale, which makes it 1/65536ths of a step
  __device__ __forceinline__ float share_of(float scale) const {
    return scale * unit_;
  }

  /// As pack, of shares. Those that saturated() made of elements below lo are lo's.
  __device__ __forceinline__ std::uint64_t pack_shares(const float (&t)[kStretch],
                                                       const philox::Block& draws) const {
    if (bits_ > kFewBits) {
      float steps[kStretch];
#pragma unroll
      for (int j = 0; j < kStretch; ++j) steps[j] = t[j] * all_;
      return pack_many(steps, draws);
    }
    // Products with a power of two are exact.
    std::uint32_t sums[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      sums[j] = add_draw(float_bits(fused_value(0x1p23F, t[j], all_)), draws, j);
    }
    return join(sums);
  }

  /// The third bytes of eight numbers, joined as codes. @pre at most kFewBits bits
  __device__ __forceinline__ std::uint32_t join(const std::uint32_t (&sums)[kStretch]) const {
    // Two codes to a byte, then four to two bytes, then all.
    const std::uint32_t even = third_bytes(sums[0], sums[2], sums[4], sums[6]);
    const std::uint32_t odd = third_bytes(sums[1], sums[3], sums[5], sums[7]);
    const std::uint32_t twos = odd * factor_ + even;
    const std::uint32_t fours = (twos & twos_) | (twos >> to_fours_ & ~twos_);
    return (fours & fours_) | (fours >> to_eights_ & ~fours_);
  }

 private:
  static __device__ __forceinline__ std::uint32_t third_bytes(std::uint32_t a, std::uint32_t b,
                                                              std::uint32_t c, std::uint32_t d) {
    return permute_bytes(permute_bytes(a, b, 0x0062), permute_bytes(c, d, 0x0062), 0x5410);
  }

  __device__ __forceinline__ std::uint64_t pack_many(const float (&t)[kStretch],
                                                     const philox::Block& draws) const {
    const std::int32_t top = (1 << bits_) - 1;
    std::uint64_t packed = 0;
#pragma unroll
    for (int j = kStretch - 1; j >= 0; --j) {
      const auto sum =
          add_draw(static_cast<std::uint32_t>(static_cast<std::int32_t>(rintf(t[j]))), draws, j);
      const std::int32_t code = static_cast<std::int32_t>(sum) >> 16;
      packed = packed << bits_ | static_cast<std::uint32_t>(code < top ? code : top);
    }
    return packed;
  }

  std::uint32_t bits_, factor_;
  float all_, unit_;  ///< 65536 times the number of codes, and its reciprocal
  std::uint32_t to_fours_, to_eights_;
  std::uint32_t twos_, fours_;
};

}  // namespace cinch::codecs::cuda
