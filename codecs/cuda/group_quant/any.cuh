// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant/encode.cuh"
#include "codecs/element_bits.h"

/// group_quant for all that lanes.cuh does not take: other layouts and alignments,
/// groups of any size, float64. And for what reads and writes elements by other ways: `load` and
/// `store` below stand for them.
namespace cinch::codecs::cuda {

/// Loads `count` of eight elements; the others become 0.
template <ElementType type>
__device__ __forceinline__ void load_group_stretch(const GroupJob& job, const void* source,
                                                   const BlockPlace& place, std::uint32_t i,
                                                   int count, float (&x)[kStretch]) {
  using Bits = typename Element<type>::Bits;
  const auto* const elements = static_cast<const Bits*>(source);
  if (job.vectors && count == kStretch) {
    load_stretch<type>(elements + place.offset(i), x);
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = j < count ? value_of<type>(elements[place.offset(i + j)]) : 0.0F;
  }
}

/// @tparam kOf here and below: job.codes_of, but elements for roots too
template <CodesOf kOf>
__device__ __forceinline__ void store_any_codes(const GroupJob& job, std::byte* at, int bits,
                                                std::int64_t k, const float (&x)[kStretch],
                                                int count, AffineRange range) {
  std::uint32_t draws[kStretch];
  draw_stretch(job.key, static_cast<std::uint64_t>(k), draws);
  const float lo = float_of_bf16(range.lo);
  const float scale = affine_scale(range);
  const bool poisoned = range == poisoned_range();
  std::uint32_t codes[kStretch];
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    codes[j] = j < count && !poisoned
                   ? affine_code(fmaxf(x[j], job.floor), lo, scale, bits, draws[j])
                   : 0U;
    if constexpr (kOf == CodesOf::above_zero) {
      const std::uint32_t code = poisoned ? 1U : codes[j];
      codes[j] = j < count && x[j] > 0.0F ? code : 0U;
    }
  }
  store_bytes(at, pack_stretch(codes, bits), (count * bits + 7) / 8);
}

/// Replaces elements by what is quantized of them.
__device__ __forceinline__ void root_stretch(const GroupJob& job, float (&x)[kStretch]) {
  if (job.codes_of != CodesOf::roots) return;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) x[j] = rooted(x[j]);
}

/// Elements of a plane's stretch: eight at most, and none if that is not above 0. (Not 0 instead:
/// ptxas 13.0 makes one instruction of that, VIMNMX.RELU, and takes its predicate for "eight". An
/// H200 sets it for none, too.)
__device__ __forceinline__ int stretch_count(const GroupJob& job, std::uint32_t slot) {
  const std::int32_t left = job.size - static_cast<std::int32_t>(slot) * kStretch;
  return left < kStretch ? left : kStretch;
}

/// Encodes a group, which the warp reads twice.
/// @param load load(place, p, i, count, x) as load_group_stretch, of plane p, where `place` begins
template <CodesOf kOf, typename Load>
__device__ __forceinline__ void encode_any_group(const GroupJob& job, const std::int64_t* offsets,
                                                 const Load& load, std::int64_t group,
                                                 std::byte* out, Result* result) {
  std::int64_t p = 0;
  auto in_plane = static_cast<std::uint32_t>(group);
  if (job.few) {
    p = job.by_groups.split(in_plane);
  } else {
    p = group / job.groups;
    in_plane = static_cast<std::uint32_t>(group % job.groups);
  }
  const auto group_slots = static_cast<std::uint32_t>(job.group / kStretch);
  const std::uint32_t begin = in_plane * group_slots;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const BlockPlace place(job.order, p * job.size);
  GroupBounds<kOf> bounds;
  float x[kStretch];
  for (std::uint32_t s = lane; s < group_slots; s += kWarp) {
    const int count = stretch_count(job, begin + s);
    load(place, p, (begin + s) * kStretch, count, x);
    root_stretch(job, x);
    bounds.add(x, count);
  }
  __syncwarp();
  bounds.join(kWarp);
  const PlaneCodes codes = plane_codes(job, out, offsets, p);
  const AffineRange range = bounds.range(codes.bits, job.floor);
  if (lane == 0) {
    store_group_range(job, out, group, {float_of_bf16(range.lo), float_of_bf16(range.step)});
    if (bounds.bad || bounds.negative) result->not_representable = 1;
  }
  for (std::uint32_t s = lane; s < group_slots; s += kWarp) {
    const std::uint32_t slot = begin + s;
    const int count = stretch_count(job, slot);
    if (count <= 0) continue;
    load(place, p, slot * kStretch, count, x);
    root_stretch(job, x);
    store_any_codes<kOf>(job, out + codes.at + std::int64_t{slot} * codes.bits, codes.bits,
                         p * job.size + std::int64_t{slot} * kStretch, x, count, range);
  }
}

/// Encodes all groups, one a warp at a time, with any number of blocks of threads.
template <CodesOf kOf = CodesOf::elements, typename Load>
__device__ __forceinline__ void encode_any_groups(const GroupJob& job, const std::int64_t* offsets,
                                                  const Load& load, std::byte* out,
                                                  Result* result) {
  constexpr unsigned kWarps = kGroupThreads / kWarp;
  for (std::int64_t group = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
       group < job.planes * job.groups; group += std::int64_t{gridDim.x} * kWarps) {
    encode_any_group<kOf>(job, offsets, load, group, out, result);
  }
}

template <ElementType type, CodesOf kOf>
__global__ void __launch_bounds__(kGroupThreads)
    group_quant_encode_any(const GroupJob job, const std::int64_t* offsets, const void* source,
                           std::byte* out, Result* result) {
  store_group_head(job, out, 0, result);
  const auto load = [&](const BlockPlace& place, std::int64_t /*p*/, std::uint32_t i, int count,
                        float(&x)[kStretch]) {
    load_group_stretch<type>(job, source, place, i, count, x);
  };
  encode_any_groups<kOf>(job, offsets, load, out, result);
}

/// Stores `count` of eight values from the i-th element of `place` on; if `poisoned`, NaNs.
template <ElementType type>
__device__ __forceinline__ void store_group_stretch(const GroupJob& job, void* target,
                                                    const BlockPlace& place, std::uint32_t i,
                                                    int count, const float (&x)[kStretch],
                                                    bool poisoned) {
  using Bits = typename Element<type>::Bits;
  auto* const elements = static_cast<Bits*>(target);
  Bits bits[kStretch];
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    bits[j] = poisoned ? static_cast<Bits>(codecs::bits_of_nan(type)) : bits_of<type>(x[j]);
  }
  if (job.vectors && count == kStretch) {
    store_stretch<type>(elements + place.offset(i), bits);
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j < count) elements[place.offset(i + j)] = bits[j];
  }
}

/// Restores the calling thread's stretch of those from `first_slot` on.
/// @param store store(place, p, e, i, count, x, poisoned): the values x of plane p from its element
/// e on, which is the i-th of `place`
template <bool subtractive, CodesOf kOf, typename Store>
__device__ __forceinline__ void decode_any_stretch(const GroupJob& job, const std::int64_t* offsets,
                                                   const std::byte* in, RandomKey key,
                                                   std::int64_t first_slot, const Store& store) {
  const SlotPlace place(job, first_slot);
  std::uint32_t slot = 0;
  const std::uint32_t plane = place.locate(job, threadIdx.x, slot);
  const std::int64_t p = place.plane + plane;
  const std::int32_t left = job.size - static_cast<std::int32_t>(slot) * kStretch;
  if (p >= job.planes || left <= 0) return;
  const int count = left < kStretch ? left : kStretch;
  const PlaneCodes codes = plane_codes(job, in, offsets, p);
  const std::int64_t at = codes.at + std::int64_t{slot} * codes.bits;
  const int bytes = (count * codes.bits + 7) / 8;
  if (at + bytes > job.end) return;
  const std::uint64_t packed = load_bytes(in + at, bytes);
  const std::int64_t group = p * job.groups + job.by_group_slots.quotient(slot);
  const std::uint32_t word = job.range_word<kOf>(in, group);
  const AffineRange range = {static_cast<std::uint16_t>(word),
                             static_cast<std::uint16_t>(word >> 16)};
  const float lo = float_of_bf16(range.lo);
  const float step = float_of_bf16(range.step);
  const bool poisoned = range == poisoned_range();
  const std::uint32_t mask = (1U << codes.bits) - 1;
  std::uint32_t draws[kStretch];
  if constexpr (subtractive) {
    draw_stretch(key, static_cast<std::uint64_t>(p * job.size + std::int64_t{slot} * kStretch),
                 draws);
  }
  float x[kStretch];
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const auto code = static_cast<std::uint32_t>(packed >> (j * codes.bits)) & mask;
    if constexpr (subtractive) {
      x[j] = affine_value_dithered(lo, step, code, draws[j]);
    } else {
      x[j] = affine_value(lo, step, code);
    }
    if (kOf == CodesOf::above_zero && code == 0) x[j] = 0.0F;
  }
  if constexpr (kOf == CodesOf::roots) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x[j] = squared_root(x[j], step);
  }
  const std::uint32_t e = slot * kStretch;
  store(place.elements, p, e, plane * static_cast<std::uint32_t>(job.size) + e, count, x, poisoned);
}

/// Restores all elements, with any number of blocks of threads.
template <bool subtractive, CodesOf kOf = CodesOf::elements, typename Store>
__device__ __forceinline__ void decode_any_stretches(const GroupJob& job,
                                                     const std::int64_t* offsets,
                                                     const std::byte* in, const Store& store) {
  RandomKey key;
  if constexpr (subtractive) key = load_key(in);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kGroupThreads; first < job.all_slots;
       first += std::int64_t{gridDim.x} * kGroupThreads) {
    decode_any_stretch<subtractive, kOf>(job, offsets, in, key, first, store);
  }
}

template <ElementType type, bool subtractive, CodesOf kOf = CodesOf::elements>
__global__ void __launch_bounds__(kGroupThreads)
    group_quant_decode_any(const GroupJob job, const std::int64_t* offsets, const std::byte* in,
                           void* target) {
  const auto store = [&](const BlockPlace& place, std::int64_t /*p*/, std::uint32_t /*e*/,
                         std::uint32_t i, int count, const float(&x)[kStretch], bool poisoned) {
    store_group_stretch<type>(job, target, place, i, count, x, poisoned);
  };
  decode_any_stretches<subtractive, kOf>(job, offsets, in, store);
}

}  // namespace cinch::codecs::cuda
