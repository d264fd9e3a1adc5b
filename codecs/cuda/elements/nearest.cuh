// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/elements/pairs.cuh"

/// Elements as PyTorch converts float32 to them: rounded to nearest, infinite where out of range.
/// (Codecs never make an infinity of a number: see word_of().)
namespace cinch::codecs::cuda {

/// NaN stays NaN.
template <ElementType type>
CINCH_HD std::uint16_t nearest(float x) {
  if (x != x) return 0x7FFF;
  if constexpr (type == ElementType::bfloat16) return bf16_nearest(x);
  const bool overflows = __builtin_fabsf(x) >= 65520.0F;
  return overflows ? static_cast<std::uint16_t>(x > 0 ? 0x7C00 : 0xFC00) : f16_nearest(x);
}

/// Two elements of a 16-bit type.
template <ElementType type>
__device__ __forceinline__ std::uint32_t nearest_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  return converted_pair<type>(first, second);
#else
  return nearest<type>(first) | std::uint32_t{nearest<type>(second)} << 16;
#endif
}

/// One element.
template <ElementType type>
__device__ __forceinline__ typename Element<type>::Bits nearest_bits(float x) {
  if constexpr (sizeof(typename Element<type>::Bits) == 2) {
    return static_cast<std::uint16_t>(nearest_pair<type>(x, 0.0F));
  } else {
    return bits_of<type>(x);
  }
}

/// Eight elements that were loaded by load_vector.
template <ElementType type>
__device__ __forceinline__ void values_of_vectors(const uint4 (&vectors)[kStretchWords<type> / 4],
                                                  float (&x)[kStretch]) {
  std::uint32_t words[kStretchWords<type>];
#pragma unroll
  for (int v = 0; v < kStretchWords<type> / 4; ++v) {
    words[4 * v] = vectors[v].x;
    words[4 * v + 1] = vectors[v].y;
    words[4 * v + 2] = vectors[v].z;
    words[4 * v + 3] = vectors[v].w;
  }
  values_in<type>(words, x);
}

/// Loads eight elements. @pre they lie at a multiple of 16 bytes
template <ElementType type>
__device__ __forceinline__ void load_eight(const void* at, float (&x)[kStretch]) {
  if constexpr (type == ElementType::float64) {
    load_stretch<type>(at, x);
  } else {
    uint4 vectors[kStretchWords<type> / 4];
#pragma unroll
    for (int v = 0; v < kStretchWords<type> / 4; ++v) {
      vectors[v] = load_vector(static_cast<const uint4*>(at) + v);
    }
    values_of_vectors<type>(vectors, x);
  }
}

/// The reverse.
template <ElementType type>
__device__ __forceinline__ void store_eight(void* at, const float (&x)[kStretch]) {
  if constexpr (sizeof(typename Element<type>::Bits) == 2) {
    store_vector(at, uint4{nearest_pair<type>(x[0], x[1]), nearest_pair<type>(x[2], x[3]),
                           nearest_pair<type>(x[4], x[5]), nearest_pair<type>(x[6], x[7])});
  } else {
    typename Element<type>::Bits bits[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) bits[j] = bits_of<type>(x[j]);
    store_stretch<type>(at, bits);
  }
}

/// The `i`-th eight of some contiguous elements, as many of them as there are; 0 behind those.
/// @param vectors whether there are whole eights, at multiples of 16 bytes
template <ElementType type>
__device__ __forceinline__ void load_some(const void* array, std::uint32_t i,
                                          std::uint32_t elements, bool vectors,
                                          float (&x)[kStretch]) {
  using Bits = typename Element<type>::Bits;
  const auto* const at = static_cast<const Bits*>(array) + std::uint64_t{i} * kStretch;
  if (vectors) return load_eight<type>(at, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = i * kStretch + j < elements ? value_of<type>(at[j]) : 0.0F;
  }
}

/// The reverse.
template <ElementType type>
__device__ __forceinline__ void store_some(void* array, std::uint32_t i, std::uint32_t elements,
                                           bool vectors, const float (&x)[kStretch]) {
  using Bits = typename Element<type>::Bits;
  auto* const at = static_cast<Bits*>(array) + std::uint64_t{i} * kStretch;
  if (vectors) return store_eight<type>(at, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (i * kStretch + j < elements) at[j] = nearest_bits<type>(x[j]);
  }
}

}  // namespace cinch::codecs::cuda
