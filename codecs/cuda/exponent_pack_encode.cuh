// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/exponent_pack_job.cuh"
#include "codecs/cuda/running_total.cuh"

namespace cinch::codecs::cuda {

/// Sets the base and bits of `block` that hold the sample in the fewest bits.
/// @param occurred how often each top occurs in the sample
__device__ __forceinline__ void choose_codes(const std::uint32_t* occurred, PackBlock& block) {
  __shared__ std::int32_t below[257];
  __shared__ std::uint32_t least;
  const auto t = static_cast<int>(threadIdx.x);
  static_assert(kPackThreads == 256);
  if (t == 0) least = ~0U;
  int sampled = 0;
  below[t] = BlockScan<kPackThreads>::exclusive(static_cast<int>(occurred[t]), sampled);
  if (t == 0) below[256] = sampled;
  __syncthreads();
  // The smallest key wins: cost, then bits, then base. This thread tries its number as the base.
  std::uint32_t best = ~0U;
  for (int bits = 0; bits <= kPackMaxBits; ++bits) {
    const int end = t + pack_window(bits);
    if (end > 256) break;
    const std::uint32_t cost = pack_cost(bits, sampled, below[end] - below[t]);
    const std::uint32_t key = cost << 16 | static_cast<std::uint32_t>(bits << 8 | t);
    best = key < best ? key : best;
  }
  for (int step = 16; step > 0; step /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, best, step);
    best = other < best ? other : best;
  }
  if (t % int{kWarp} == 0) atomicMin(&least, best);
  __syncthreads();
  block.bits = static_cast<std::uint8_t>(least >> 8 & 0xFFU);
  block.base = static_cast<std::uint8_t>(least & 0xFFU);
}

/// The calling thread's elements of a block, rotated, and where they go.
template <typename T>
struct PackElements {
  T x[kPackEach];
  int count;                ///< elements of the block
  bool leaves_out = false;  ///< whether only elements that are not 0 are held
  unsigned base = 0;        ///< tops of [base, base + window) have codes
  unsigned window = 0;

  /// Loads the elements. Sets each stretch's ballot of those that are not 0, and their number, and
  /// counts the tops of those that are sampled.
  __device__ __forceinline__ PackElements(const PackJob& job, std::int64_t turn, const void* source,
                                          std::uint32_t* occurred, std::uint32_t* nonzeros,
                                          std::int32_t* held)
      : count(job.elements_of(turn)) {
    const BlockPlace place(job.order, turn * kPackElements);
#pragma unroll
    for (int j = 0; j < kPackEach; ++j) {
      const int i = element_of(j);
      x[j] = i < count ? rotate_left(static_cast<const T*>(
                             source)[place.offset(static_cast<std::uint32_t>(i))])
                       : T{0};
      const std::uint32_t ballot = __ballot_sync(kAllLanes, x[j] != 0);
      if (leads_warp()) nonzeros[stretch_of(j)] = ballot;
      if (leads_warp()) held[stretch_of(j)] = __popc(ballot);
      if (is_sampled(stretch_of(j)) && x[j] != 0) atomicAdd(occurred + top_of(x[j]), 1U);
    }
  }

  __device__ __forceinline__ bool is_held(int j) const {
    return leaves_out ? x[j] != 0 : element_of(j) < count;
  }
  __device__ __forceinline__ bool is_escape(int j) const {
    return is_held(j) && top_of(x[j]) - base >= window;
  }

  /// Sets the number of escapes of each stretch.
  __device__ __forceinline__ void count_escapes(std::int32_t* escapes) const {
#pragma unroll
    for (int j = 0; j < kPackEach; ++j) {
      const std::uint32_t ballot = __ballot_sync(kAllLanes, is_escape(j));
      if (leads_warp()) escapes[stretch_of(j)] = __popc(ballot);
    }
  }

  __device__ __forceinline__ void write_whole(std::byte* to) const {
#pragma unroll
    for (int j = 0; j < kPackEach; ++j) {
      if (element_of(j) < count) reinterpret_cast<T*>(to)[element_of(j)] = rotate_right(x[j]);
    }
  }

  /// Writes rests and escapes, and sets a byte of `codes` for each element that is held.
  /// @param held_before, escapes_before of each stretch, in the stretches before it
  __device__ __forceinline__ void write(const PackBlock& block, const PackSections& at,
                                        const std::uint32_t* nonzeros,
                                        const std::int32_t* held_before,
                                        const std::int32_t* escapes_before, std::uint8_t* codes,
                                        std::byte* to) const {
#pragma unroll
    for (int j = 0; j < kPackEach; ++j) {
      const int stretch = stretch_of(j);
      const bool escapes = is_escape(j);
      const std::uint32_t ballot = __ballot_sync(kAllLanes, escapes);
      if (!is_held(j)) continue;
      const int k =
          leaves_out ? held_before[stretch] + lanes_before(nonzeros[stretch]) : element_of(j);
      for_each_part<T>(block.held, [&]<typename P>(P*, int begin, int bit) {
        reinterpret_cast<P*>(to + at.rests + begin)[k] = static_cast<P>(x[j] >> bit);
      });
      const unsigned top = top_of(x[j]);
      codes[k] = static_cast<std::uint8_t>(escapes ? window : top - base);
      if (escapes) {
        to[at.escapes + escapes_before[stretch] + lanes_before(ballot)] =
            static_cast<std::byte>(top);
      }
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    exponent_pack_encode(const PackJob job, const void* source, RunningTotal* total, std::byte* out,
                         Result* result) {
  __shared__ std::uint32_t occurred[256];
  __shared__ std::uint32_t nonzeros[kPackStretches];  ///< a ballot each
  __shared__ std::int32_t held_before[kPackStretches];
  __shared__ std::int32_t escapes_before[kPackStretches];
  __shared__ std::uint64_t codes[kPackElements / 8];  ///< a byte each
  const std::int64_t turn = take_turn(total);
  const auto t = static_cast<int>(threadIdx.x);
  occurred[t] = 0;
  for (int i = t; i < kPackElements / 8; i += int{kPackThreads}) codes[i] = 0;
  __syncthreads();

  PackElements<T> elements(job, turn, source, occurred, nonzeros, held_before);
  const int count = elements.count;
  PackBlock block;
  const int held = sum_stretches(held_before);
  const bool leaves_out = leaves_zeros_out(count - held, count, static_cast<int>(sizeof(T)));
  block.form = leaves_out ? PackForm::nonzeros : PackForm::packed;
  block.held = static_cast<std::uint16_t>(leaves_out ? held : count);
  choose_codes(occurred, block);
  elements.leaves_out = leaves_out;
  elements.base = block.base;
  elements.window = static_cast<unsigned>(pack_window(block.bits));
  elements.count_escapes(escapes_before);
  block.escapes = static_cast<std::uint16_t>(sum_stretches(escapes_before));
  const int whole = count * static_cast<int>(sizeof(T));
  if (PackSections(block, count, sizeof(T)).size >= whole) block = PackBlock();
  const PackSections at(block, count, sizeof(T));

  const std::int64_t before = add_to_total(total, turn, at.size);
  if (t == 0) {
    reinterpret_cast<std::int64_t*>(out + PackLayout::kIndex)[turn] = before;
    reinterpret_cast<PackBlock*>(out + job.at.blocks)[turn] = block;
    if (turn == job.at.count - 1) {
      job.write_header(job.at.payload + before + at.size, out, result);
    }
  }

  std::byte* const to = out + job.at.payload + before;
  if (t < at.size - at.end) to[at.end + t] = std::byte{0};
  if (block.form == PackForm::whole) return elements.write_whole(to);
  if (4 * t < at.rests) reinterpret_cast<std::uint32_t*>(to)[t] = nonzeros[t];
  elements.write(block, at, nonzeros, held_before, escapes_before,
                 reinterpret_cast<std::uint8_t*>(codes), to);
  __syncthreads();
  for (int k = 8 * t; k < block.held; k += 8 * int{kPackThreads}) {
    const int bytes = bytes_of_codes(block, k);
    store_bytes(to + at.codes + k / 8 * block.bits, join_codes(codes[k / 8], block.bits), bytes);
  }
}

/// Encodes an empty tensor: a header.
static __global__ void exponent_pack_empty(const PackJob job, std::byte* out, Result* result) {
  job.write_header(job.at.payload, out, result);
}

}  // namespace cinch::codecs::cuda
