// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/division_job.cuh"

/// DIVISION's decoding.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDecodeThreads = 256;
/// Stretches that a thread restores.
inline constexpr std::int32_t kDecodeEach = 4;
inline constexpr std::int32_t kDecodeReach = kDecodeThreads * kStretch * kDecodeEach;

/// Decodes elements of one plane.
struct PlaneDecoder {
  const std::uint16_t* means;
  float lo, step;
  bool poisoned;

  __device__ __forceinline__ PlaneDecoder(const DivisionJob& job, const std::byte* in,
                                          std::int64_t plane)
      : means(reinterpret_cast<const std::uint16_t*>(in) + plane * job.block_count) {
    const AffineRange range = load_range(job, in, plane);
    lo = float_of_bf16(range.lo);
    step = float_of_bf16(range.step);
    poisoned = range == poisoned_range();
  }

  /// Mean of the block that covers element `e`, plus the plane's zero point.
  __device__ __forceinline__ float base(const DivisionJob& job, std::uint32_t e) const {
    return float_of_bf16(means[job.covering_block(e)]) + lo;
  }
};

/// The bit pattern to restore for an element.
template <ElementType type>
__device__ __forceinline__ typename Element<type>::Bits restored(const DivisionJob& job,
                                                                 Reads reads,
                                                                 const PlaneDecoder& plane,
                                                                 float base, std::uint32_t code,
                                                                 bool sign) {
  using Bits = typename Element<type>::Bits;
  if (reads == Reads::sign) return sign ? static_cast<Bits>(codecs::bits_of_one(type)) : Bits{0};
  if (plane.poisoned) return static_cast<Bits>(codecs::bits_of_nan(type));
  if (job.with_sign && !sign) return Bits{0};
  return bits_of<type>(affine_value(base, plane.step, code));
}

/// Restores contiguous elements. @param quads job.quads(), and each stretch lies within one plane
template <ElementType type, bool quads>
__global__ void __launch_bounds__(kDecodeThreads)
    division_decode(const DivisionJob job, const std::byte* in, Reads reads, void* target) {
  using Bits = typename Element<type>::Bits;
  const std::int64_t k0 = std::int64_t{blockIdx.x} * kDecodeReach;
  const std::int64_t first = k0 / job.size;
  const auto e0 = static_cast<std::uint32_t>(k0 % job.size);
  const std::int64_t left = job.layout.elements() - k0;
  const std::byte* const codes = in + job.sections.codes + k0 / 8 * job.bits;
  const std::byte* const signs = in + job.sections.signs + k0 / 8;
  const std::uint32_t mask = (1U << job.bits) - 1;
#pragma unroll
  for (std::int32_t turn = 0; turn < kDecodeEach; ++turn) {
    const std::int32_t i =
        (turn * std::int32_t{kDecodeThreads} + std::int32_t(threadIdx.x)) * kStretch;
    if (i >= left) return;
    const int count = left - i < kStretch ? static_cast<int>(left - i) : kStretch;
    const std::uint64_t packed =
        load_bytes(codes + std::int64_t{i / kStretch} * job.bits, (count * job.bits + 7) / 8);
    const unsigned sign_bits = job.with_sign ? static_cast<unsigned>(signs[i / kStretch]) : 0U;
    std::uint32_t e = e0 + static_cast<std::uint32_t>(i);
    std::int64_t p = first + job.by_size.split(e);
    PlaneDecoder plane(job, in, p);
    float base = 0.0F;
    Bits x[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (!quads && j > 0 && j < count && e == static_cast<std::uint32_t>(job.size)) {
        e = 0;
        plane = PlaneDecoder(job, in, ++p);
      }
      if (quads ? j % 4 == 0 : j < count) base = plane.base(job, e);
      x[j] = restored<type>(job, reads, plane, base,
                            static_cast<std::uint32_t>(packed >> (j * job.bits)) & mask,
                            (sign_bits >> j & 1U) != 0);
      ++e;
    }
    Bits* const to = static_cast<Bits*>(target) + k0 + i;
    if (job.vectors && count == kStretch) {
      store_stretch<type>(to, x);
    } else {
      for (int j = 0; j < kStretch; ++j) {
        if (j < count) to[j] = x[j];
      }
    }
  }
}

/// Restores elements of any layout. If planes are interleaved, a warp's lanes take neighbouring
/// planes, which lie side by side in memory; else they take neighbouring elements of one plane.
template <ElementType type>
__global__ void __launch_bounds__(kDecodeThreads)
    division_decode_strided(const DivisionJob job, bool interleaved, const std::byte* in,
                            Reads reads, void* target) {
  using Bits = typename Element<type>::Bits;
  const std::uint32_t mask = (1U << job.bits) - 1;
  const std::int64_t elements = job.layout.elements();
  const std::int64_t inner = job.layout.inner;
  const std::int64_t threads = std::int64_t{gridDim.x} * kDecodeThreads;
  for (std::int64_t t = std::int64_t{blockIdx.x} * kDecodeThreads + threadIdx.x; t < elements;
       t += threads) {
    std::int64_t p = t / job.size;
    auto e = static_cast<std::uint32_t>(t % job.size);
    if (interleaved) {
      const std::int64_t row = t / inner;
      e = static_cast<std::uint32_t>(row % job.size);
      p = row / job.size * inner + t % inner;
    }
    const PlaneDecoder plane(job, in, p);
    const std::int64_t k = p * job.size + e;
    const auto code =
        static_cast<std::uint32_t>(load_codes(in + job.sections.codes, k, job.bits, 1)) & mask;
    const bool sign = job.with_sign && (load_codes(in + job.sections.signs, k, 1, 1) & 1U) != 0;
    static_cast<Bits*>(target)[job.plane_begin(p) + job.offset_in_plane(e)] =
        restored<type>(job, reads, plane, plane.base(job, e), code, sign);
  }
}

}  // namespace cinch::codecs::cuda
