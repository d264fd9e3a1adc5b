// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/quantize.cuh"
#include "codecs/cuda/group_quant/any.cuh"
#include "codecs/cuda/two_sided/job.cuh"

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
    upper = 0;
    const auto one = [&](int j, const SidedNumbers& by) {
      if (is_upper(x[j], by.factor, by.summand)) upper |= 1U << j;
      z[j] = normalized(x[j], by.center, by.inverse);
    };
    if (job.by_channel && count > 0) {
      with_numbers(
          job.by_run, e, count, [&](std::uint32_t c) { return sided_numbers(job, c); }, one);
    } else {
#pragma unroll
      for (int j = 0; j < kStretch; ++j) one(j, SidedNumbers());
    }
  }

  __device__ __forceinline__ bool is_above(int j) const {
    return (upper >> j & 1U) != 0;
  }
};

/// Running bounds of both sides of a group. Elements that are NaN, or others of the other side,
/// change none.
struct SidedBounds {
  float lower_min = kBeyond, lower_max = -kBeyond;
  float upper_min = kBeyond, upper_max = -kBeyond;
  bool bad = false;

  static constexpr float kBeyond = 0x1p127F;  ///< more than any element that can be held

  __device__ __forceinline__ void add(const SidedStretch& stretch, int count) {
    const float nan = float_of_bits(0x7FC00000U);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      const float z = stretch.z[j];
      const float below = stretch.is_above(j) ? nan : z;
      const float above = stretch.is_above(j) ? z : nan;
      bad |= !(fabsf(z) <= kAffineMaxMagnitude);
      lower_min = fminf(lower_min, below);
      lower_max = fmaxf(lower_max, below);
      upper_min = fminf(upper_min, above);
      upper_max = fmaxf(upper_max, above);
    }
  }
};

/// What a warp's lanes know of their group: both ranges, of which the first half of the lanes
/// computes the lower one, the second half the upper one.
class SidedCoder {
 public:
  /// All lanes of the warp must call it.
  __device__ __forceinline__ SidedCoder(const SidedBounds& bounds, int bits)
      : bits_(bits), good_(__ballot_sync(kAllLanes, bounds.bad) == 0), packer_(bits) {
    const bool second = threadIdx.x % kWarp >= kWarp / 2;
    float min = second ? bounds.upper_min : bounds.lower_min;
    float max = second ? bounds.upper_max : bounds.lower_max;
    min = fminf(min, other(second ? bounds.lower_min : bounds.upper_min));
    max = fmaxf(max, other(second ? bounds.lower_max : bounds.upper_max));
    join_bounds(min, max, kWarp / 2);
    range_ = poisoned_floats();
    if (good_) {
      range_ = FloatRange{0.0F, 0.0F};
      if (min <= max) range_ = RangeMaker(bits - 1).range(min, max);
    }
    const float scale = RangeMaker::scale(range_.step);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      lo_[side] = __shfl_sync(kAllLanes, range_.lo, side * static_cast<int>(kWarp / 2));
      scale_[side] = __shfl_sync(kAllLanes, scale, side * static_cast<int>(kWarp / 2));
    }
  }

  __device__ __forceinline__ bool good() const {
    return good_;
  }
  /// The range of the calling lane's half, as it is stored.
  __device__ __forceinline__ std::uint32_t word() const {
    return range_.word();
  }

  /// The joined codes of the first `count` of a stretch.
  __device__ __forceinline__ std::uint64_t pack(const SidedStretch& stretch, int count,
                                                const philox::Block& draws) const {
    const std::uint64_t packed = !good_                          ? sides_alone(stretch)
                                 : bits_ <= CodePacker::kFewBits ? pack_few(stretch, draws)
                                                                 : pack_many(stretch, draws);
    return count == kStretch ? packed : packed & ((std::uint64_t{1} << (count * bits_)) - 1);
  }

 private:
  static __device__ __forceinline__ float other(float x) {
    return __shfl_xor_sync(kAllLanes, x, static_cast<int>(kWarp / 2));
  }

  /// Element j's place in its range, in 1/65536ths of a step.
  __device__ __forceinline__ float place(const SidedStretch& stretch, int j) const {
    const bool above = stretch.is_above(j);
    return (stretch.z[j] - (above ? lo_[1] : lo_[0])) * (above ? scale_[1] : scale_[0]);
  }

  /// As CodePacker::pack: a side's codes have fewer bits still, and never exceed their largest. To
  /// 2^23 an even number is added that is the side's bit.
  __device__ __forceinline__ std::uint64_t pack_few(const SidedStretch& stretch,
                                                    const philox::Block& draws) const {
    const float above = 0x1p23F + static_cast<float>(1 << (15 + bits_));
    std::uint32_t sums[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      const float bias = stretch.is_above(j) ? above : 0x1p23F;
      sums[j] = add_draw(float_bits(place(stretch, j) + bias), draws, j);
    }
    return packer_.join(sums);
  }

  __device__ __forceinline__ std::uint64_t pack_many(const SidedStretch& stretch,
                                                     const philox::Block& draws) const {
    const std::uint32_t side = 1U << (bits_ - 1);
    std::uint64_t packed = 0;
#pragma unroll
    for (int j = kStretch - 1; j >= 0; --j) {
      // Codes have 7 bits at most.
      const std::uint32_t sum =
          add_draw(float_bits(place(stretch, j) + 0x1p23F) - 0x4B000000U, draws, j);
      const std::uint32_t code = sum >> 16;
      packed =
          packed << bits_ | (code < side ? code : side - 1) | (stretch.is_above(j) ? side : 0U);
    }
    return packed;
  }

  __device__ __forceinline__ std::uint64_t sides_alone(const SidedStretch& stretch) const {
    std::uint64_t packed = 0;
    for (int j = kStretch - 1; j >= 0; --j) {
      packed = packed << bits_ | (stretch.is_above(j) ? 1U << (bits_ - 1) : 0U);
    }
    return packed;
  }

  int bits_;  ///< the side's included
  bool good_;
  CodePacker packer_;
  FloatRange range_;
  float lo_[2], scale_[2];
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
  const SidedCoder coder(bounds, job.groups.bits);
  if (lane % (kWarp / 2) == 0) {
    const std::int64_t group = plane * job.groups.groups + in_plane;
    auto* const words = reinterpret_cast<std::uint32_t*>(out + job.ranges_at + 8 * group);
    words[lane / (kWarp / 2)] = coder.word();
    if (!coder.good()) result->not_representable = 1;
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
