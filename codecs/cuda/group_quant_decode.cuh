// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant_job.cuh"
#include "codecs/element_bits.h"

namespace cinch::codecs::cuda {

/// Stretches that a thread restores.
inline constexpr int kGroupDecodeEach = 4;

template <ElementType type, bool subtractive>
__global__ void __launch_bounds__(kGroupThreads)
    group_quant_decode(const GroupJob job, const std::int64_t* offsets, const std::byte* in,
                       void* target) {
  using Bits = typename Element<type>::Bits;
  auto* const elements = static_cast<Bits*>(target);
  RandomKey key;
  if constexpr (subtractive) key = load_key(in);
  const SlotPlace place(job, std::int64_t{blockIdx.x} * (kGroupThreads * kGroupDecodeEach));
#pragma unroll
  for (int turn = 0; turn < kGroupDecodeEach; ++turn) {
    std::uint32_t slot = 0;
    const std::uint32_t plane = place.locate(job, turn * kGroupThreads + threadIdx.x, slot);
    const std::int64_t p = place.plane + plane;
    const std::int32_t left = job.size - static_cast<std::int32_t>(slot) * kStretch;
    if (p >= job.planes || left <= 0) continue;
    const int count = left < kStretch ? left : kStretch;
    const PlaneCodes codes = plane_codes(job, in, offsets, p);
    const std::int64_t at = codes.at + std::int64_t{slot} * codes.bits;
    const int bytes = (count * codes.bits + 7) / 8;
    if (at + bytes > job.end) continue;
    const std::uint64_t packed = load_bytes(in + at, bytes);
    const std::int64_t group = p * job.groups + job.by_group_slots.quotient(slot);
    const std::uint32_t word =
        *reinterpret_cast<const std::uint32_t*>(in + job.ranges_at + 4 * group);
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
    Bits x[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      const auto code = static_cast<std::uint32_t>(packed >> (j * codes.bits)) & mask;
      float value = 0.0F;
      if constexpr (subtractive) {
        value = affine_value_dithered(lo, step, code, draws[j]);
      } else {
        value = affine_value(lo, step, code);
      }
      x[j] = poisoned ? static_cast<Bits>(codecs::bits_of_nan(type)) : bits_of<type>(value);
    }
    const std::uint32_t i = plane * static_cast<std::uint32_t>(job.size) + slot * kStretch;
    if (job.vectors && count == kStretch) {
      store_stretch<type>(elements + place.elements.offset(i), x);
    } else {
#pragma unroll
      for (int j = 0; j < kStretch; ++j) {
        if (j < count) elements[place.elements.offset(i + j)] = x[j];
      }
    }
  }
}

}  // namespace cinch::codecs::cuda
