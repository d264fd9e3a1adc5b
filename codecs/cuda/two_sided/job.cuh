// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant/job.cuh"
#include "codecs/formats/two_sided.h"

namespace cinch::codecs::cuda {

/// Arguments of the two_sided kernels.
struct SidedJob {
  /// How groups lie on planes. Its byte offsets are group_quant's, not those of two_sided.
  GroupJob groups;
  Description::Sides sides;  ///< encode only: arrays in device memory
  FastDivide by_run;         ///< encode only
  bool by_channel;           ///< encode: whether there are arrays
  bool aligned;              ///< planes begin at stretches
  bool threes;               ///< codes of three bits, of which four stretches are stored together
  std::int64_t channels;     ///< encode: of the scales that are written
  std::int64_t scales_at;
  std::int64_t ranges_at, codes_at;  ///< encode only
  std::int64_t code_bytes;           ///< of a plane
  std::int64_t ranges_bytes;
  std::int64_t end;  ///< encode: encoded size; decode: size of the bytes given

  SidedJob(const TwoSidedParameters& parameters, const Description& what, const void* memory,
           RandomKey key) noexcept
      : SidedJob(parameters, what, memory, key,
                 TwoSidedSections(parameters, what.layout, TwoSidedHeader::of(what).channels)) {}

 private:
  SidedJob(const TwoSidedParameters& parameters, const Description& what, const void* memory,
           RandomKey key, const TwoSidedSections& at) noexcept
      : groups(parameters, {.type = what.type, .layout = what.layout}, memory, key),
        sides(what.sides),
        by_channel(sides.factor != nullptr || sides.center != nullptr),
        aligned(groups.size % kStretch == 0),
        threes(groups.usual_bits() == 3),
        channels(TwoSidedHeader::of(what).channels),
        scales_at(at.scales),
        ranges_at(at.ranges),
        codes_at(at.codes),
        code_bytes(group_quant_code_bytes(groups.size, parameters.bits)),
        ranges_bytes(at.codes - at.ranges),
        end(at.end) {
    if (by_channel) by_run = FastDivide(sides.run);
  }
};

/// Division of numbers below 2^30 by one that only the device knows.
class DeviceDivide {
 public:
  DeviceDivide() = default;
  /// @pre 1 <= divisor < 2^30
  __device__ __forceinline__ explicit DeviceDivide(std::uint32_t divisor)
      : divisor_(divisor), reciprocal_(0xFFFFFFFFU / divisor) {}

  __device__ __forceinline__ std::uint32_t divisor() const { return divisor_; }

  /// Gives the quotient and leaves the remainder in n.
  __device__ __forceinline__ std::uint32_t split(std::uint32_t& n) const {
    // Too small by one at most: the reciprocal is less than two too small.
    auto q = static_cast<std::uint32_t>(std::uint64_t{n} * reciprocal_ >> 32);
    n -= q * divisor_;
    if (n >= divisor_) {
      n -= divisor_;
      ++q;
    }
    return q;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t reciprocal_ = 0;
};

/// Calls use(j, numbers) for the first `count` of eight neighbouring elements of a plane, with the
/// numbers of their channels, of which load(c) gives those of channel c.
/// @param first the first element's number in its plane
template <typename Divide, typename Load, typename Use>
__device__ __forceinline__ void with_numbers(const Divide& by_run, std::uint32_t first, int count,
                                             const Load& load, const Use& use) {
  std::uint32_t rest = first;
  std::uint32_t c = by_run.split(rest);
  auto numbers = load(c);
  if (by_run.divisor() % kStretch == 0) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) use(j, numbers);
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (rest == by_run.divisor() && j < count) {
      rest = 0;
      numbers = load(++c);
    }
    ++rest;
    use(j, numbers);
  }
}

/// The draws for a stretch of a plane, at any place.
__device__ __forceinline__ philox::Block stretch_draws(bool aligned, const RoundKeys& keys,
                                                       RandomKey key, std::int64_t k) {
  if (aligned) return keys.draw_block(static_cast<std::uint64_t>(k / kStretch));
  std::uint32_t draws[kStretch];
  draw_stretch(key, static_cast<std::uint64_t>(k), draws);
  philox::Block block;
#pragma unroll
  for (int w = 0; w < kStretch / 2; ++w) block.word[w] = draws[2 * w] | draws[2 * w + 1] << 16;
  return block;
}

}  // namespace cinch::codecs::cuda
