// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant/any.cuh"
#include "codecs/cuda/group_quant/decode.cuh"
#include "codecs/cuda/two_sided/job.cuh"
#include "codecs/element_bits.h"

namespace cinch::codecs::cuda {

/// What decoding makes of codes.
enum class SidedRead { values, dithered, sides };

/// Encoded data, and where its sections are: the header says that.
class SidedBytes {
 public:
  __device__ __forceinline__ SidedBytes(const SidedJob& job, const std::byte* in)
      : job_(job), in_(in) {
    const auto* const words = reinterpret_cast<const std::int64_t*>(in);
    const TwoSidedHeader header = {words[0], words[1]};
    const std::int64_t channels = header.fits(job.groups.size) ? header.channels : 0;
    ranges_at_ = job.scales_at + (channels + channels % 2) * std::int64_t{sizeof(TwoSidedScale)};
    codes_at_ = ranges_at_ + job.ranges_bytes;
    good_ =
        header.fits(job.groups.size) && codes_at_ + job.groups.planes * job.code_bytes <= job.end;
    normalized_ = channels > 0;
    if (normalized_) by_run_ = DeviceDivide(static_cast<std::uint32_t>(header.run));
  }

  /// False for bytes that encode can't have written. Nothing else may be asked then.
  __device__ __forceinline__ bool good() const { return good_; }
  __device__ __forceinline__ bool normalized() const { return normalized_; }

  __device__ __forceinline__ uint2 ranges(std::int64_t group) const {
    return *reinterpret_cast<const uint2*>(in_ + ranges_at_ + 8 * group);
  }

  /// The joined codes of a stretch.
  __device__ __forceinline__ std::uint64_t codes(std::int64_t plane, std::uint32_t slot,
                                                 int count) const {
    const int bits = job_.groups.bits;
    const std::byte* const at =
        in_ + codes_at_ + plane * job_.code_bytes + std::int64_t{slot} * bits;
    if (count < kStretch) return load_bytes(at, (count * bits + 7) / 8);
    if (job_.threes) return load_three_bytes(at, slot % 4);
    return load_stretch_bits(at, bits, can_access_at_once(at, bits));
  }

  /// Denormalizes eight elements of a plane from `e` on.
  __device__ __forceinline__ void denormalize(std::uint32_t e, int count,
                                              float (&x)[kStretch]) const {
    const auto* const scales = reinterpret_cast<const float2*>(in_ + job_.scales_at);
    with_numbers(
        by_run_, e, count, [&](std::uint32_t c) { return scales[c]; },
        [&](int j, float2 scale) { x[j] = denormalized(x[j], scale.x, scale.y); });
  }

 private:
  const SidedJob& job_;
  const std::byte* in_;
  DeviceDivide by_run_;
  std::int64_t ranges_at_, codes_at_;
  bool good_, normalized_;
};

/// Restores a stretch of a plane.
/// @param keys, key those of the encoding, if kRead is dithered
/// @return false for poisoned elements, which are undefined
template <SidedRead kRead>
__device__ __forceinline__ bool restore_sided(const SidedJob& job, const SidedBytes& bytes,
                                              std::int64_t plane, std::uint32_t slot, int count,
                                              const RoundKeys& keys, RandomKey key,
                                              float (&x)[kStretch]) {
  const int bits = job.groups.bits;
  const std::uint64_t packed = bytes.codes(plane, slot, count);
  const auto low = static_cast<std::uint32_t>(packed);
  const auto high = static_cast<std::uint32_t>(packed >> (4 * bits));
  const auto part = [&](int j) { return (j < 4 ? low : high) >> (j % 4 * bits); };
  const std::uint32_t side = 1U << (bits - 1);
  if constexpr (kRead == SidedRead::sides) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x[j] = (part(j) & side) != 0 ? 1.0F : 0.0F;
    return true;
  }
  const std::int64_t group = plane * job.groups.groups + job.groups.by_group_slots.quotient(slot);
  const uint2 words = bytes.ranges(group);
  const float lower_lo = float_of_bits(words.x << 16);
  const float lower_step = float_of_bits(words.x & 0xFFFF0000U);
  const float upper_lo = float_of_bits(words.y << 16);
  const float upper_step = float_of_bits(words.y & 0xFFFF0000U);
  const std::int64_t k = plane * job.groups.size + std::int64_t{slot} * kStretch;
  philox::Block draws = {};
  if constexpr (kRead == SidedRead::dithered) draws = stretch_draws(job.aligned, keys, key, k);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const bool above = (part(j) & side) != 0;
    const std::uint32_t code = part(j) & (side - 1);
    const float lo = above ? upper_lo : lower_lo;
    const float step = above ? upper_step : lower_step;
    if constexpr (kRead == SidedRead::dithered) {
      const std::uint32_t draw = draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
      x[j] = affine_value_dithered(lo, step, code, draw);
    } else {
      x[j] = fused_value(lo, step, float_of(code));
    }
  }
  if (bytes.normalized()) bytes.denormalize(slot * kStretch, count, x);
  return words.x != std::uint32_t{kPoisonedStep} << 16;
}

/// Decodes groups of any size in any layout, a stretch a thread. Any number of blocks of threads
/// will do.
template <ElementType type, SidedRead kRead>
__global__ void __launch_bounds__(kGroupThreads)
    two_sided_decode(const SidedJob job, const std::byte* in, void* target) {
  const GroupJob& groups = job.groups;
  const SidedBytes bytes(job, in);
  RandomKey key;
  if constexpr (kRead == SidedRead::dithered) key = load_key(in + sizeof(TwoSidedHeader));
  const RoundKeys keys(key);
  for (std::int64_t at = std::int64_t{blockIdx.x} * kGroupThreads + threadIdx.x;
       at < groups.all_slots; at += std::int64_t{gridDim.x} * kGroupThreads) {
    std::int64_t plane = 0;
    auto slot = static_cast<std::uint32_t>(at);
    if (groups.few) {
      plane = groups.by_slots.split(slot);
    } else {
      plane = at / groups.slots;
      slot = static_cast<std::uint32_t>(at % groups.slots);
    }
    const int count = stretch_count(groups, slot);
    if (count <= 0) continue;
    float x[kStretch] = {};
    const bool good =
        bytes.good() && restore_sided<kRead>(job, bytes, plane, slot, count, keys, key, x);
    const BlockPlace place(groups.order, plane * groups.size);
    store_group_stretch<type>(groups, target, place, slot * kStretch, count, x, !good);
  }
}

}  // namespace cinch::codecs::cuda
