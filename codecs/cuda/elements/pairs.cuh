// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/affine.h"
#include "codecs/cuda/device.h"
#include "codecs/cuda/elements/elements.cuh"

/// Arithmetic on elements as they lie in memory: one float32, or two 16-bit floats, to a word. On a
/// GPU each function is one or two instructions; elsewhere it is plain C++ with the same results.
namespace cinch::codecs::cuda {

/// Elements of a word of memory.
template <ElementType type>
inline constexpr int kPerWord = 4 / static_cast<int>(sizeof(typename Element<type>::Bits));

/// Words of a stretch.
template <ElementType type>
inline constexpr int kStretchWords = kStretch / kPerWord<type>;

/// The value of element `j` of a word.
template <ElementType type>
__device__ __forceinline__ float value_in(std::uint32_t word, int j) {
  if constexpr (type == ElementType::float32) return float_of_bits(word);
  if constexpr (type == ElementType::bfloat16) {
    return float_of_bits(j == 0 ? word << 16 : word & 0xFFFF0000U);
  }
  const auto bits = static_cast<std::uint16_t>(j == 0 ? word : word >> 16);
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return float_of_f16(bits);
#endif
}

/// The values of a stretch.
template <ElementType type>
__device__ __forceinline__ void values_in(const std::uint32_t (&words)[kStretchWords<type>],
                                          float (&x)[kStretch]) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = value_in<type>(words[j / kPerWord<type>], j % kPerWord<type>);
  }
}

#ifdef __CUDA_ARCH__
/// Two elements of a 16-bit type as the GPU converts them: infinite where out of range.
template <ElementType type>
__device__ __forceinline__ std::uint32_t converted_pair(float first, float second) {
  std::uint32_t word;
  if constexpr (type == ElementType::bfloat16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
}
#endif

/// The word that holds the elements nearest to `first` and, of 16-bit types, `second`.
/// @pre neither is NaN
template <ElementType type>
__device__ __forceinline__ std::uint32_t word_of(float first, float second) {
  if constexpr (type == ElementType::float32) return float_bits(first);
#ifdef __CUDA_ARCH__
  std::uint32_t word = converted_pair<type>(first, second);
  if constexpr (type == ElementType::float16) {
    // 0x7BFF is 65504.
    asm("min.f16x2 %0, %0, %1;" : "+r"(word) : "r"(0x7BFF7BFFU));
    asm("max.f16x2 %0, %0, %1;" : "+r"(word) : "r"(0xFBFFFBFFU));
  }
  return word;
#else
  return bits_of<type>(first) | std::uint32_t{bits_of<type>(second)} << 16;
#endif
}

/// The words of eight elements of these values. @pre none is NaN
template <ElementType type>
__device__ __forceinline__ void words_of(const float (&x)[kStretch],
                                         std::uint32_t (&words)[kStretchWords<type>]) {
#pragma unroll
  for (int w = 0; w < kStretchWords<type>; ++w) {
    words[w] = word_of<type>(x[w * kPerWord<type>], x[(w + 1) * kPerWord<type> - 1]);
  }
}

/// The smaller or larger elements of two words; NaN where one of the two is.
template <ElementType type, bool least>
__device__ __forceinline__ std::uint32_t extreme(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  std::uint32_t word;
  if constexpr (type == ElementType::float32) {
    float value;
    const float x = float_of_bits(a);
    const float y = float_of_bits(b);
    if constexpr (least) asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(x), "f"(y));
    if constexpr (!least) asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(x), "f"(y));
    word = float_bits(value);
  } else if constexpr (type == ElementType::bfloat16) {
    if constexpr (least) asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    if constexpr (!least) asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  } else {
    if constexpr (least) asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    if constexpr (!least) asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  }
  return word;
#else
  constexpr std::uint32_t kElement = type == ElementType::float32 ? 0xFFFFFFFFU : 0xFFFFU;
  std::uint32_t word = 0;
  for (int j = 0; j < kPerWord<type>; ++j) {
    const float x = value_in<type>(a, j);
    const float y = value_in<type>(b, j);
    const bool first = x != x || (y == y && (least ? x <= y : x >= y));
    word |= (first ? a : b) & kElement << (16 * j);
  }
  return word;
#endif
}

/// The smallest and the largest of some elements. NaN if one of them is.
template <ElementType type>
struct Extremes {
  std::uint32_t low, high;  ///< of 16-bit types one for the even elements, one for the odd ones

  __device__ __forceinline__ explicit Extremes(std::uint32_t word) : low(word), high(word) {}
  __device__ __forceinline__ Extremes(std::uint32_t least, std::uint32_t greatest)
      : low(least), high(greatest) {}
  __device__ __forceinline__ void add(std::uint32_t word) {
    low = extreme<type, true>(low, word);
    high = extreme<type, false>(high, word);
  }
  __device__ __forceinline__ float min() const { return value_in<type>(folded<true>(low), 0); }
  __device__ __forceinline__ float max() const { return value_in<type>(folded<false>(high), 0); }

 private:
  template <bool least>
  static __device__ __forceinline__ std::uint32_t folded(std::uint32_t word) {
    return kPerWord<type> == 1 ? word : extreme<type, least>(word, word >> 16 | word << 16);
  }
};

/// Whether a quantizer can hold data between these, which are NaN if the data had a NaN.
__device__ __forceinline__ bool are_quantizable(float min, float max) {
  return min >= -kAffineMaxMagnitude && max <= kAffineMaxMagnitude;
}

/// The float32 of an integer below 2^23, without a conversion instruction.
__device__ __forceinline__ float float_of(std::uint32_t integer) {
  return float_of_bits(integer | 0x4B000000U) - 0x1p23F;
}

/// affine_value, whose product is exact: one rounding either way.
__device__ __forceinline__ float fused_value(float lo, float step, float code) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(step, code, lo);
#else
  return lo + step * code;
#endif
}

}  // namespace cinch::codecs::cuda
