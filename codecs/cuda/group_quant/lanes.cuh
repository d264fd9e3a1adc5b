// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/elements/pairs.cuh"
#include "codecs/cuda/group_quant/job.cuh"

/// group_quant's steps on groups of 16 to 256 elements, two stretches a thread, half a group apart.
/// A warp takes 64 stretches: two groups of 256, or more smaller ones.
namespace cinch::codecs::cuda {

inline constexpr std::uint32_t kPiece = 2 * kWarp;  ///< stretches of a warp

/// GroupJob::half_shift of groups of 256 elements, for which all kernels have code of their own.
inline constexpr unsigned kUsualShift = 4;

/// @param bits GroupJob::usual_bits, or 0
constexpr unsigned usual_shift(int bits) noexcept {
  return bits > 0 ? kUsualShift : 0;
}

/// How a group's stretches lie on threads. @param kShift the job's half_shift; 0: any
template <unsigned kShift>
class GroupLanes {
 public:
  __device__ __forceinline__ explicit GroupLanes(const GroupJob& job)
      : shift_(kShift > 0 ? kShift : job.half_shift) {}

  /// Lanes of a group: each has its first stretch in the group's first half.
  __device__ __forceinline__ std::uint32_t count() const { return 1U << shift_; }

  /// The calling lane's first stretch among the warp's; the second is `count()` further.
  __device__ __forceinline__ std::uint32_t first() const {
    const std::uint32_t lane = threadIdx.x % kWarp;
    return (lane >> shift_ << (shift_ + 1)) + (lane & (count() - 1));
  }
  /// Whether the calling lane has its group's first stretch.
  __device__ __forceinline__ bool leads() const { return (threadIdx.x & (count() - 1)) == 0; }

  /// Which group a stretch belongs to, of those that begin at stretch 0.
  template <typename Number>
  __device__ __forceinline__ Number group_of(Number stretch) const {
    return stretch >> (shift_ + 1);
  }

 private:
  std::uint32_t shift_;
};

/// Bounds of some elements, NaN if one of them is.
struct FloatBounds {
  float min, max;

  __device__ __forceinline__ void join(const FloatBounds& other) {
    constexpr auto type = ElementType::float32;
    min = float_of_bits(extreme<type, true>(float_bits(min), float_bits(other.min)));
    max = float_of_bits(extreme<type, false>(float_bits(max), float_bits(other.max)));
  }
};

/// Bounds of a group. All lanes of the warp must call join.
template <ElementType type>
class GroupRange : public FloatBounds {
 public:
  __device__ __forceinline__ GroupRange() : FloatBounds(), extremes_(kNeutralLow, kNeutralHigh) {}

  __device__ __forceinline__ void add(const std::uint32_t (&words)[kStretchWords<type>]) {
#pragma unroll
    for (int w = 0; w < kStretchWords<type>; ++w) extremes_.add(words[w]);
  }

  /// @param lanes neighbouring ones that have the group's elements: a power of two
  __device__ __forceinline__ void join(std::uint32_t lanes) {
    if constexpr (kPerWord<type> == 1) {
      for (std::uint32_t step = lanes / 2; step > 0; step /= 2) {
        extremes_.low = extreme<type, true>(extremes_.low, other(extremes_.low, step));
        extremes_.high = extreme<type, false>(extremes_.high, other(extremes_.high, step));
      }
      min = float_of_bits(extremes_.low);
      max = float_of_bits(extremes_.high);
    } else {
      // One word for both: the least, and the least of the negated ones.
      constexpr std::uint32_t kSigns = 0x80008000U;
      const std::uint32_t negated = extremes_.high ^ kSigns;
      std::uint32_t both = extreme<type, true>(permute_bytes(extremes_.low, negated, 0x5410),
                                               permute_bytes(extremes_.low, negated, 0x7632));
      for (std::uint32_t step = lanes / 2; step > 0; step /= 2) {
        both = extreme<type, true>(both, other(both, step));
      }
      min = value_in<type>(both, 0);
      max = -value_in<type>(both, 1);
    }
  }

 private:
  static constexpr std::uint32_t kInfinity =
      static_cast<std::uint32_t>(codecs::bits_of_infinity(type));
  static constexpr std::uint32_t kSign =
      static_cast<std::uint32_t>(codecs::bits_of_minus_zero(type));
  static constexpr std::uint32_t kTwice = kPerWord<type> == 1 ? 1U : 0x10001U;
  static constexpr std::uint32_t kNeutralLow = kInfinity * kTwice;
  static constexpr std::uint32_t kNeutralHigh = (kInfinity | kSign) * kTwice;

  static __device__ __forceinline__ std::uint32_t other(std::uint32_t word, std::uint32_t step) {
    return __shfl_xor_sync(kAllLanes, word, static_cast<int>(step));
  }

  Extremes<type> extremes_;
};

/// Where a lane's two stretches are in the encoded data.
struct GroupPlace {
  /// The first, in logical order: its number for draws, and for contiguous elements its place.
  std::int64_t stretch;
  std::int64_t group;
  std::int64_t codes;  ///< byte offset
  int bits;
  bool first, second;  ///< whether they exist
};

/// @param slot the lane's first stretch, counted as if each plane's last group were full
/// @pre job.linear, if kShift > 0
/// @param encoded, offsets as for plane_codes
template <unsigned kShift>
__device__ __forceinline__ GroupPlace place_of(const GroupJob& job, const GroupLanes<kShift>& lanes,
                                               std::int64_t slot, const std::byte* encoded,
                                               const std::int64_t* offsets) {
  GroupPlace place;
  if (kShift > 0 || job.linear) {  // slots are stretches
    place.first = place.second = slot < job.all_slots;
    place.stretch = slot;
    place.group = lanes.group_of(slot);
    place.codes = job.codes_at + slot * static_cast<std::uint32_t>(job.bits);
    place.bits = job.bits;
    return place;
  }
  std::int64_t plane = 0;
  if (job.few) {
    auto rest = static_cast<std::uint32_t>(slot);
    plane = job.by_slots.split(rest);
    slot = rest;
  } else {
    plane = slot / job.slots;
    slot %= job.slots;
  }
  const std::int64_t there = plane < job.planes ? job.size / kStretch : 0;
  place.first = slot < there;
  place.second = slot + lanes.count() < there;
  place.stretch = plane * (job.size / kStretch) + slot;
  place.group = plane * job.groups + lanes.group_of(slot);
  place.codes = 0;
  place.bits = job.bits;
  if (place.first) {
    const PlaneCodes codes = plane_codes(job, encoded, offsets, plane);
    place.codes = codes.at + slot * codes.bits;
    place.bits = codes.bits;
  }
  return place;
}

/// Stores three bytes a lane, of four neighbouring lanes in three words. All lanes of the warp must
/// call it. @pre the first of the four has an address that is a multiple of 4
__device__ __forceinline__ void store_three_bytes(std::byte* at, std::uint32_t bytes, bool wanted) {
  const unsigned quarter = threadIdx.x % 4;
  bytes &= 0xFFFFFFU;
  const std::uint32_t next = __shfl_down_sync(kAllLanes, bytes, 1);
  const std::uint64_t both = bytes | std::uint64_t{next} << 24;
  if (!wanted || quarter == 3) return;
  *reinterpret_cast<std::uint32_t*>(at + quarter) =
      static_cast<std::uint32_t>(both >> (8 * quarter));
}

/// Loads three bytes from a place that is 12 bytes times something, and three times `quarter`, from
/// a multiple of 4, without reading words that hold none of them.
__device__ __forceinline__ std::uint32_t load_three_bytes(const std::byte* at, unsigned quarter) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(at - (3 * quarter) % 4);
  const std::uint32_t low = words[0];
  std::uint32_t high = 0;
  if (quarter == 1 || quarter == 2) high = words[1];
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (24 * quarter % 32));
}

}  // namespace cinch::codecs::cuda
