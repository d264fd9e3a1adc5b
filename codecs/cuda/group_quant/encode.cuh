// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "codecs/cuda/blocks/ordered.cuh"
#include "codecs/cuda/group_quant/lanes.cuh"

namespace cinch::codecs::cuda {

/// Blocks of a multiprocessor that encode, as many as have the registers for it.
/// @param kBits GroupJob::usual_bits, or 0
template <ElementType type, int kBits>
inline constexpr unsigned kGroupEncodeBlocks = kBits > 0 && kPerWord<type> == 2 ? 5 : 4;

__device__ __forceinline__ void store_group_range(const GroupJob& job, std::byte* out,
                                                  std::int64_t group, FloatRange range) {
  *reinterpret_cast<std::uint32_t*>(out + job.ranges_at + 4 * group) = range.word();
}

/// @pre are_quantizable(bounds.min, bounds.max) @param kOf job.codes_of, here and below
template <CodesOf kOf = CodesOf::elements>
__device__ __forceinline__ FloatRange group_range(const GroupJob& job, int bits,
                                                  const FloatBounds& bounds) {
  if constexpr (kOf == CodesOf::above_zero) {
    if (!(bounds.max > 0.0F)) return {0.0F, 0.0F};
    return RangeMaker(bits).range(below_least(bounds.min, bounds.max, bits), bounds.max);
  }
  if constexpr (kOf == CodesOf::roots)
    return RangeMaker(bits).range(rooted(bounds.min), rooted(bounds.max));
  return RangeMaker(bits).range(fmaxf(bounds.min, job.floor), fmaxf(bounds.max, job.floor));
}

/// What one thread of the grid does for the whole encoding. @param before bytes in front of `out`
__device__ __forceinline__ void store_group_head(const GroupJob& job, std::byte* out,
                                                 std::int64_t before, Result* result) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  result->bytes = static_cast<std::uint64_t>(before + job.end);
  if (job.subtractive) store_key(job, out);
}

/// The joined codes of a stretch; 0 if its group can't be held, or with CodesOf::above_zero 1 and
/// 0.
/// @param share RangeMaker::scale, as CodePacker::share_of has it
template <ElementType type, CodesOf kOf = CodesOf::elements>
__device__ __forceinline__ std::uint64_t group_codes(
    const GroupJob& job, const std::uint32_t (&words)[kStretchWords<type>], std::int64_t stretch,
    float lo, float share, bool good, const CodePacker& packer) {
  float t[kStretch];
  values_in<type>(words, t);
  const float one = packer.share_of(65536.0F);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const float x = t[j];
    if constexpr (kOf == CodesOf::roots) t[j] = sqrtf(fmaxf(x, 0.0F));  // if it can be held
    t[j] = saturated((t[j] - lo) * share);
    if constexpr (kOf == CodesOf::above_zero) t[j] = x > 0.0F ? (good ? t[j] : one) : 0.0F;
  }
  const std::uint64_t packed =
      packer.pack_shares(t, job.keys.draw_block(static_cast<std::uint64_t>(stretch)));
  return good || kOf == CodesOf::above_zero ? packed : 0;
}

/// Stores the codes of a lane's stretch. All lanes of the warp must call it.
template <int kBits>
__device__ __forceinline__ void store_group_codes(std::byte* at, int bits, std::uint64_t packed,
                                                  bool wanted) {
  if constexpr (kBits == 3) {
    store_three_bytes(at, static_cast<std::uint32_t>(packed), wanted);
  } else if (wanted) {
    const bool aligned = kBits > 0 || can_access_at_once(at, bits);
    store_stretch_bits(at, kBits > 0 ? kBits : bits, aligned, packed);
  }
}

/// Running bounds of a group of floats. @tparam kOf job.codes_of; elements will do for roots too
template <CodesOf kOf>
struct GroupBounds : FloatBounds {
  bool bad = false;
  bool negative = false;  ///< known only of CodesOf::above_zero

  __device__ __forceinline__ GroupBounds() : FloatBounds{0x1p127F, -0x1p127F} {}

  __device__ __forceinline__ void add(const float (&x)[kStretch], int count) {
    constexpr bool kAboveZero = kOf == CodesOf::above_zero;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      bad |= !((kAboveZero ? x[j] : fabsf(x[j])) <= kAffineMaxMagnitude);
      if (kAboveZero) negative |= x[j] < 0.0F;
      min = !kAboveZero || x[j] > 0.0F ? fminf(min, x[j]) : min;
      max = fmaxf(max, x[j]);
    }
  }

  /// Joins the bounds of `lanes` neighbouring lanes (a power of two). All lanes must call it.
  __device__ __forceinline__ void join(unsigned lanes) {
    join_bounds(min, max, lanes);
    const unsigned first = threadIdx.x % kWarp / lanes * lanes;
    const unsigned those = (lanes == kWarp ? kAllLanes : (1U << lanes) - 1) << first;
    bad = (__ballot_sync(kAllLanes, bad) & those) != 0;
    if (kOf == CodesOf::above_zero) negative = (__ballot_sync(kAllLanes, negative) & those) != 0;
  }

  __device__ __forceinline__ AffineRange range(int bits, float floor) const {
    if (bad) return poisoned_range();
    if constexpr (kOf == CodesOf::above_zero) return range_above_zero(min, max, bits);
    return affine_range(fmaxf(min, floor), fmaxf(max, floor), bits);
  }
};

/// Encodes the groups of a warp. All of its lanes must call it.
/// @param kBits job.usual_bits(), or 0
/// @param kWhole each group has a stretch for each of its lanes' two, or none at all: then lanes
/// without stretches need not be left out of a group's bounds
/// @param a, b the lane's two stretches
template <ElementType type, int kBits, bool kWhole, CodesOf kOf = CodesOf::elements,
          unsigned kShift>
__device__ __forceinline__ void encode_groups(const GroupJob& job, const GroupLanes<kShift>& lanes,
                                              const GroupPlace& place,
                                              const std::uint32_t (&a)[kStretchWords<type>],
                                              const std::uint32_t (&b)[kStretchWords<type>],
                                              std::byte* out, Result* result) {
  constexpr bool kAboveZero = kOf == CodesOf::above_zero;
  std::conditional_t<kAboveZero, GroupBounds<kOf>, GroupRange<type>> bounds;
  const auto add = [&](const std::uint32_t(&words)[kStretchWords<type>]) {
    if constexpr (kAboveZero) {
      float x[kStretch];
      values_in<type>(words, x);
      bounds.add(x, kStretch);
    } else {
      bounds.add(words);
    }
  };
  if (kWhole || place.first) add(a);
  if (kWhole || place.second) add(b);
  bounds.join(lanes.count());
  const int bits = kBits > 0 ? kBits : place.bits;
  bool good, holds;
  if constexpr (kAboveZero) {
    good = !bounds.bad;
    holds = good && !bounds.negative;
  } else {
    holds = good = are_quantizable(bounds.min, bounds.max);
  }
  FloatRange range = poisoned_floats();
  if (good) range = group_range<kOf>(job, bits, bounds);
  if (place.first && lanes.leads()) {
    store_group_range(job, out, place.group, range);
    if (!holds) result->not_representable = 1;
  }
  const CodePacker packer(static_cast<std::uint32_t>(bits));
  const float share = packer.share_of(RangeMaker::scale(range.step));
  std::byte* const at = out + place.codes;
  store_group_codes<kBits>(
      at, bits, group_codes<type, kOf>(job, a, place.stretch, range.lo, share, good, packer),
      place.first);
  const std::uint32_t further = lanes.count();
  store_group_codes<kBits>(
      at + further * static_cast<std::uint32_t>(bits), bits,
      group_codes<type, kOf>(job, b, place.stretch + further, range.lo, share, good, packer),
      place.second);
}

/// Encodes groups that fit into half a warp (GroupJob::fits_warp), of contiguous elements. Reads
/// elements once, into registers. @param kBits, kShift for which there is code of its own, or
/// zeros; not 0 only if job.linear
/// @pre job.vectors
template <ElementType type, int kBits, unsigned kShift, CodesOf kOf>
__global__ void __launch_bounds__(kGroupThreads, (kGroupEncodeBlocks<type, kBits>))
    group_quant_encode(const GroupJob job, const std::int64_t* offsets, const void* source,
                       std::byte* out, Result* result) {
  const auto* const elements = static_cast<const typename Element<type>::Bits*>(source);
  store_group_head(job, out, 0, result);
  const GroupLanes<kShift> lanes(job);
  const std::int64_t pieces = (job.all_slots + kPiece - 1) / kPiece;
  constexpr unsigned kWarps = kGroupThreads / kWarp;
  for (std::int64_t piece = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; piece < pieces;
       piece += std::int64_t{gridDim.x} * kWarps) {
    const GroupPlace place = place_of(job, lanes, piece * kPiece + lanes.first(), out, offsets);
    // Lanes without stretches load ones that exist, which takes fewer instructions than zeros.
    const std::int64_t first = place.first ? place.stretch : 0;
    const std::int64_t second = first + (kBits > 0 || place.second ? lanes.count() : 0U);
    std::uint32_t a[kStretchWords<type>];
    std::uint32_t b[kStretchWords<type>];
    load_run<type, kStretch>(elements + first * kStretch, a);
    load_run<type, kStretch>(elements + second * kStretch, b);
    encode_groups<type, kBits, (kBits > 0), kOf>(job, lanes, place, a, b, out, result);
  }
}

}  // namespace cinch::codecs::cuda
