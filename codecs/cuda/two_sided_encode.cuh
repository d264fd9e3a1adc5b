// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant_any.cuh"
#include "codecs/cuda/quantize.cuh"
#include "codecs/cuda/two_sided_job.cuh"

namespace cinch::codecs::cuda {

/// What one grid does for the whole encoding, but for groups.
__device__ __forceinline__ void store_sided_head(const SidedJob& job, std::byte* out,
                                                 Result* result) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.end);
    auto* const header = reinterpret_cast<std::int64_t*>(out);
    header[0] = job.channels > 0 ? job.sides.run : 0;
    header[1] = job.channels;
    if (job.groups.subtractive) store_key(job.groups, out + sizeof(TwoSidedHeader));
  }
  auto* const scales = reinterpret_cast<float2*>(out + job.scales_at);
  const std::int64_t padded = (job.ranges_at - job.scales_at) / std::int64_t{sizeof(float2)};
  for (std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; c < padded;
       c += std::int64_t{gridDim.x} * blockDim.x) {
    scales[c] = c < job.channels ? float2{job.sides.center[c], job.sides.spread[c]} : float2{0, 0};
  }
}

/// What encoding needs of a channel.
struct SidedNumbers {
  float factor = 1.0F;
  float summand = 0.0F;
  float center = 0.0F;
  float inverse = 1.0F;
};

__device__ __forceinline__ SidedNumbers sided_numbers(const SidedJob& job, std::uint32_t channel) {
  SidedNumbers numbers;
  if (job.sides.factor != nullptr) {
    numbers.factor = job.sides.factor[channel];
    numbers.summand = job.sides.summand[channel];
  }
  if (job.sides.center != nullptr) {
    numbers.center = job.sides.center[channel];
    numbers.inverse = inverse_spread(numbers.center, job.sides.spread[channel]);
  }
  return numbers;
}

/// Eight elements, normalized, with their sides.
struct SidedStretch {
  float z[kStretch];
  std::uint32_t upper;  ///< a bit each

  /// @param e the first element's number in its plane
  __device__ __forceinline__ void take(const SidedJob& job, std::uint32_t e, int count,
                                       const float (&x)[kStretch]) {
    SidedNumbers numbers[kStretch];
    if (job.by_channel && count > 0) {
      load_numbers(
          job.by_run, e, count, [&](std::uint32_t c) { return sided_numbers(job, c); }, numbers);
    }
    upper = 0;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      const SidedNumbers& by = numbers[j];
      if (j < count && is_upper(x[j], by.factor, by.summand)) upper |= 1U << j;
      z[j] = normalized(x[j], by.center, by.inverse);
    }
  }

  __device__ __forceinline__ bool is_above(int j) const {
    return (upper >> j & 1U) != 0;
  }
};

/// Running bounds of both sides of a group.
struct SidedBounds {
  float lower_min = kBeyond, lower_max = -kBeyond;
  float upper_min = kBeyond, upper_max = -kBeyond;
  bool bad = false;

  static constexpr float kBeyond = 0x1p127F;  ///< more than any element that can be held

  __device__ __forceinline__ void add(const SidedStretch& stretch, int count) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      const float z = stretch.z[j];
      const bool above = stretch.is_above(j);
      bad |= !(fabsf(z) <= kAffineMaxMagnitude);
      lower_min = fminf(lower_min, above ? kBeyond : z);
      lower_max = fmaxf(lower_max, above ? -kBeyond : z);
      upper_min = fminf(upper_min, above ? z : kBeyond);
      upper_max = fmaxf(upper_max, above ? z : -kBeyond);
    }
  }

  /// Joins the bounds of a warp. All its lanes must call it.
  __device__ __forceinline__ void join() {
    join_bounds(lower_min, lower_max);
    join_bounds(upper_min, upper_max);
    bad = __ballot_sync(kAllLanes, bad) != 0;
  }
};

/// The range of one side, whose codes have so many bits; 0, 0 without elements.
__device__ __forceinline__ FloatRange side_range(float min, float max, int bits, bool bad) {
  if (bad) return poisoned_floats();
  if (min > max) return {0.0F, 0.0F};
  return RangeMaker(bits).range(min, max);
}

/// Both ranges of a group, and its codes.
struct SidedCoder {
  FloatRange lower, upper;
  float lower_scale, upper_scale;
  int bits;  ///< the side's included
  bool good;

  __device__ __forceinline__ SidedCoder(const SidedBounds& bounds, int all_bits)
      : lower(side_range(bounds.lower_min, bounds.lower_max, all_bits - 1, bounds.bad)),
        upper(side_range(bounds.upper_min, bounds.upper_max, all_bits - 1, bounds.bad)),
        lower_scale(RangeMaker::scale(lower.step)),
        upper_scale(RangeMaker::scale(upper.step)),
        bits(all_bits),
        good(!bounds.bad) {}

  /// The joined codes of the first `count` of a stretch.
  __device__ __forceinline__ std::uint64_t pack(const SidedStretch& stretch, int count,
                                                const philox::Block& draws) const {
    const std::int32_t top = (1 << (bits - 1)) - 1;
    std::uint32_t low = 0, high = 0;  // four codes each
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      const bool above = stretch.is_above(j);
      const float t =
          (stretch.z[j] - (above ? upper.lo : lower.lo)) * (above ? upper_scale : lower_scale);
      // Adding 2^23 rounds as rintf, and leaves the integer in the lower bits: codes have 7 bits.
      const std::uint32_t sum = add_draw(float_bits(t + 0x1p23F) - 0x4B000000U, draws, j);
      const auto code = static_cast<std::int32_t>(sum) >> 16;
      std::uint32_t whole = static_cast<std::uint32_t>(code < top ? code : top);
      if (!good) whole = 0;
      if (above) whole |= 1U << (bits - 1);
      if (j >= count) whole = 0;
      (j < 4 ? low : high) |= whole << (j % 4 * bits);
    }
    return low | std::uint64_t{high} << (4 * bits);
  }
};

/// Encodes a group, of which `load(slot, count, x)` loads stretches, by their numbers in the plane.
/// The warp reads it twice if it has more than a stretch for each lane. All lanes must call it.
template <typename Load>
__device__ __forceinline__ void encode_sided_group(const SidedJob& job, std::int64_t plane,
                                                   std::uint32_t in_plane, const Load& load,
                                                   std::byte* out, Result* result) {
  const auto slots = static_cast<std::uint32_t>(job.groups.group / kStretch);
  const std::uint32_t begin = in_plane * slots;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const bool once = slots <= kWarp;
  SidedBounds bounds;
  SidedStretch stretch;
  int count = 0;
  const auto read = [&](std::uint32_t s) {
    count = stretch_count(job.groups, begin + s);
    float x[kStretch] = {};
    load(begin + s, count, x);
    stretch.take(job, (begin + s) * kStretch, count, x);
  };
  for (std::uint32_t s = lane; s < slots; s += kWarp) {
    read(s);
    bounds.add(stretch, count);
  }
  __syncwarp();
  bounds.join();
  const SidedCoder coder(bounds, job.groups.bits);
  if (lane == 0) {
    const std::int64_t group = plane * job.groups.groups + in_plane;
    *reinterpret_cast<uint2*>(out + job.ranges_at + 8 * group) =
        uint2{coder.lower.word(), coder.upper.word()};
    if (bounds.bad) result->not_representable = 1;
  }
  std::byte* const codes = out + job.codes_at + plane * job.code_bytes;
  const int bits = job.groups.bits;
  for (std::uint32_t first = 0; first < slots; first += kWarp) {  // by all lanes
    const std::uint32_t s = first + lane;
    if (!once && s < slots) read(s);
    const bool wanted = s < slots && count > 0;
    std::uint64_t packed = 0;
    if (wanted) {
      const std::int64_t k = plane * job.groups.size + std::int64_t{begin + s} * kStretch;
      packed = coder.pack(stretch, count,
                          stretch_draws(job.aligned, job.groups.keys, job.groups.key, k));
    }
    std::byte* const at = codes + std::int64_t{begin + s} * bits;
    if (job.threes) {
      store_three_bytes(at, static_cast<std::uint32_t>(packed), wanted);
    } else if (wanted && count == kStretch) {
      store_stretch_bits(at, bits, can_access_at_once(at, bits), packed);
    } else if (wanted) {
      store_bytes(at, packed, (count * bits + 7) / 8);
    }
  }
}

/// Encodes groups of any size in any layout, one a warp at a time. Any number of blocks of threads
/// will do.
template <ElementType type>
__global__ void __launch_bounds__(kGroupThreads)
    two_sided_encode(const SidedJob job, const void* source, std::byte* out, Result* result) {
  store_sided_head(job, out, result);
  const GroupJob& groups = job.groups;
  constexpr unsigned kWarps = kGroupThreads / kWarp;
  for (std::int64_t group = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
       group < groups.planes * groups.groups; group += std::int64_t{gridDim.x} * kWarps) {
    std::int64_t plane = 0;
    auto in_plane = static_cast<std::uint32_t>(group);
    if (groups.few) {
      plane = groups.by_groups.split(in_plane);
    } else {
      plane = group / groups.groups;
      in_plane = static_cast<std::uint32_t>(group % groups.groups);
    }
    const BlockPlace place(groups.order, plane * groups.size);
    const auto load = [&](std::uint32_t slot, int count, float(&x)[kStretch]) {
      load_group_stretch<type>(groups, source, place, slot * kStretch, count, x);
    };
    encode_sided_group(job, plane, in_plane, load, out, result);
  }
}

}  // namespace cinch::codecs::cuda
