// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/group_quant/lanes.cuh"
#include "codecs/element_bits.h"

namespace cinch::codecs::cuda {

/// The joined codes of a stretch. @param kBits job.usual_bits(), or 0
template <int kBits>
__device__ __forceinline__ std::uint64_t load_group_codes(const std::byte* at, int bits) {
  if constexpr (kBits == 3) return load_three_bytes(at, threadIdx.x % 4);
  return load_stretch_bits(at, kBits > 0 ? kBits : bits, kBits > 0 || can_access_at_once(at, bits));
}

/// The values of a stretch. @param draws with subtractive dithering: what was drawn for it
template <bool subtractive, CodesOf kOf = CodesOf::elements>
__device__ __forceinline__ void group_values(std::uint64_t packed, int bits, float lo, float step,
                                             const philox::Block& draws, float (&x)[kStretch]) {
  const std::uint32_t mask = (1U << bits) - 1;
  const auto low = static_cast<std::uint32_t>(packed);
  const auto high = static_cast<std::uint32_t>(packed >> (4 * bits));
  philox::Block inverted;
#pragma unroll
  for (int w = 0; w < 4; ++w) inverted.word[w] = ~draws.word[w];
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const std::uint32_t code = (j < 4 ? low : high) >> (j % 4 * bits) & mask;
    if constexpr (!subtractive) {
      x[j] = fused_value(lo, step, float_of(code));
    } else if (bits <= 6) {
      // affine_value_dithered, whose integer is (code << 16) + 0x8000 - draw: as a sum of what is
      // not negative, in the lower bits of a float between 2^23 and 2^24.
      const std::uint32_t sum = add_draw(code << 16 | 0x4B400000U, inverted, j);
      x[j] = lo + step * 0x1p-16F * (float_of_bits(sum) - (0x1.8p23F + 0x7FFF));
    } else {
      const std::uint32_t draw = draws.word[j / 2] >> (j % 2 * 16) & 0xFFFFU;
      x[j] = affine_value_dithered(lo, step, code, draw);
    }
    if (kOf == CodesOf::above_zero && code == 0) x[j] = 0.0F;
    if (kOf == CodesOf::roots) x[j] = squared_root(x[j], step);
  }
}

/// Restores a lane's stretch. @param word the group's range, as it is stored
template <ElementType type, bool subtractive, CodesOf kOf = CodesOf::elements>
__device__ __forceinline__ void restore_group_stretch(std::uint64_t packed, int bits,
                                                      std::uint32_t word, std::int64_t stretch,
                                                      const RoundKeys& keys,
                                                      std::uint32_t (&words)[kStretchWords<type>]) {
  const float lo = float_of_bits(word << 16);
  const float step = float_of_bits(word & 0xFFFF0000U);
  philox::Block draws = {};
  if constexpr (subtractive) draws = keys.draw_block(static_cast<std::uint64_t>(stretch));
  float x[kStretch];
  group_values<subtractive, kOf>(packed, bits, lo, step, draws, x);
  words_of<type>(x, words);
  if (step == step) return;
#pragma unroll
  for (int w = 0; w < kStretchWords<type>; ++w) {
    const auto nan = static_cast<std::uint32_t>(codecs::bits_of_nan(type));
    words[w] = kPerWord<type> == 1 ? nan : nan | nan << 16;
  }
}

/// Stores a stretch of 32 bytes for each lane. Neighbouring lanes swap halves, so that both write
/// to one sector at once. All lanes of the warp must call it.
/// @pre two neighbouring lanes, from each even one on, have neighbouring stretches
__device__ __forceinline__ void store_wide_stretches(uint4* target, std::int64_t stretch,
                                                     const std::uint32_t (&words)[8]) {
  const bool odd = threadIdx.x % 2 != 0;
  std::uint32_t of_first[4];
  std::uint32_t of_second[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t kept = odd ? words[4 + w] : words[w];
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, odd ? words[w] : words[4 + w], 1);
    of_first[w] = odd ? other : kept;
    of_second[w] = odd ? kept : other;
  }
  uint4* const to = target + stretch * 2 - (odd ? 1 : 0);
  store_vector(to, uint4{of_first[0], of_first[1], of_first[2], of_first[3]});
  store_vector(to + 2, uint4{of_second[0], of_second[1], of_second[2], of_second[3]});
}

/// Blocks of a multiprocessor that decode, as many as have the registers for it.
template <ElementType type, int kBits>
inline constexpr unsigned kGroupDecodeBlocks = kBits == 0            ? 6
                                               : kPerWord<type> == 1 ? 5
                                                                     : 8;

/// Decodes what group_quant_encode encodes, kBits and kShift as there. @pre job.vectors
template <ElementType type, bool subtractive, int kBits, unsigned kShift, CodesOf kOf>
__global__ void __launch_bounds__(kGroupThreads)
    group_quant_decode(const GroupJob job, const std::int64_t* offsets, const std::byte* in,
                       void* target) {
  const GroupLanes<kShift> lanes(job);
  const RoundKeys keys(subtractive ? load_key(in) : RandomKey());
  const std::int64_t pieces = (job.all_slots + kPiece - 1) / kPiece;
  constexpr unsigned kWarps = kGroupThreads / kWarp;
  constexpr int kVectors = kStretchWords<type> / 4;
  constexpr bool kSwaps = kVectors == 2 && kShift == kUsualShift;
  for (std::int64_t piece = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; piece < pieces;
       piece += std::int64_t{gridDim.x} * kWarps) {
    std::int64_t slot = piece * kPiece + lanes.first();
    // The last piece may have one group: then all lanes take that, as no lane may be missing.
    if (kSwaps && slot >= job.all_slots) slot -= kWarp;
    const GroupPlace place = place_of(job, lanes, slot, in, offsets);
    if (!kSwaps && !place.first) continue;
    const int bits = kBits > 0 ? kBits : place.bits;
    const std::uint32_t range = job.template range_word<kOf>(in, place.group);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!kSwaps && half == 1 && !place.second) continue;
      const std::int64_t stretch = place.stretch + (half == 0 ? 0 : lanes.count());
      const std::int64_t at =
          place.codes + (half == 0 ? 0U : lanes.count() * static_cast<std::uint32_t>(bits));
      // What damaged bits of planes make of the codes' places may end behind the data.
      if (kBits == 0 && job.mixed && at + bits > job.end) continue;
      std::uint32_t words[kStretchWords<type>];
      restore_group_stretch<type, subtractive, kOf>(load_group_codes<kBits>(in + at, bits), bits,
                                                    range, stretch, keys, words);
      if constexpr (kSwaps) {
        store_wide_stretches(static_cast<uint4*>(target), stretch, words);
        continue;
      }
      auto* const to = static_cast<uint4*>(target) + stretch * kVectors;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        store_vector(to + v,
                     uint4{words[4 * v], words[4 * v + 1], words[4 * v + 2], words[4 * v + 3]});
      }
    }
  }
}

}  // namespace cinch::codecs::cuda
