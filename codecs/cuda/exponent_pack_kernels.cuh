// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/logical.cuh"
#include "codecs/cuda/running_total.cuh"
#include "codecs/exponent_pack.h"

/// A block of threads takes a block of elements; a warp takes a stretch of 32, one a lane.
namespace cinch::codecs::cuda {

inline constexpr unsigned kPackThreads = 256;
inline constexpr int kPackWarps = kPackThreads / kWarp;
inline constexpr int kPackEach = kPackElements / kPackThreads;  ///< elements of a thread
inline constexpr int kPackStretches = kPackElements / kPackStretch;
static_assert(kPackStretch == kWarp && kPackStretches <= int{kPackThreads});

struct PackJob {
  LogicalOrder order;
  std::int64_t elements;
  PackLayout at;
  ElementType type;

  explicit PackJob(const Description& what) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        at(what.layout.elements()),
        type(what.type) {}

  /// Number of elements of block `block`.
  __device__ __forceinline__ int elements_of(std::int64_t block) const {
    const std::int64_t left = elements - block * kPackElements;
    return static_cast<int>(left < kPackElements ? left : kPackElements);
  }
};

/// Replaces the count of each stretch by the sum over the stretches before it. Begins and ends with
/// a barrier. @return the sum over all stretches
__device__ __forceinline__ int sum_stretches(std::int32_t* counts) {
  __syncthreads();
  int total = 0;
  const bool has_stretch = threadIdx.x < kPackStretches;
  const int own = has_stretch ? counts[threadIdx.x] : 0;
  const int before = BlockScan<kPackThreads>::exclusive(own, total);
  if (has_stretch) counts[threadIdx.x] = before;
  __syncthreads();
  return total;
}

/// How many lanes before this one have a 1 in `ballot`.
__device__ __forceinline__ int lanes_before(std::uint32_t ballot) {
  return __popc(ballot & ((1U << threadIdx.x % kWarp) - 1U));
}

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

/// Rests are stored in parts of 4, 2 and 1 bytes. Calls f for each part, with a null pointer to its
/// type, where the part of all `held` elements begins, and its first bit in the rotated element.
template <typename T, typename F>
__device__ __forceinline__ void for_each_part(int held, const F& f) {
  if constexpr (sizeof(T) == 8) f(static_cast<std::uint32_t*>(nullptr), 0, 0);
  if constexpr (sizeof(T) == 8) f(static_cast<std::uint16_t*>(nullptr), 4 * held, 32);
  if constexpr (sizeof(T) == 4) f(static_cast<std::uint16_t*>(nullptr), 0, 0);
  constexpr int kBefore = static_cast<int>(sizeof(T)) - 2;
  f(static_cast<std::uint8_t*>(nullptr), kBefore * held, 8 * kBefore);
}

template <typename T>
__device__ __forceinline__ unsigned top_of(T rotated) {
  return static_cast<unsigned>(rotated >> (8 * (sizeof(T) - 1)));
}

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
  const std::int64_t first = turn * kPackElements;
  const int count = job.elements_of(turn);
  const BlockPlace place(job.order, first);
  const auto t = static_cast<int>(threadIdx.x);
  const int warp = t / int{kWarp};
  const bool leads = t % int{kWarp} == 0;
  occurred[t] = 0;
  for (int i = t; i < kPackElements / 8; i += int{kPackThreads}) codes[i] = 0;
  __syncthreads();

  T x[kPackEach];  // rotated
#pragma unroll
  for (int j = 0; j < kPackEach; ++j) {
    const int i = j * int{kPackThreads} + t;
    x[j] = i < count ? rotate_left(static_cast<const T*>(
                           source)[place.offset(static_cast<std::uint32_t>(i))])
                     : T{0};
    const int stretch = j * kPackWarps + warp;
    const std::uint32_t ballot = __ballot_sync(kAllLanes, x[j] != 0);
    if (leads) nonzeros[stretch] = ballot;
    if (leads) held_before[stretch] = __popc(ballot);
    if (is_sampled(stretch) && x[j] != 0) atomicAdd(occurred + top_of(x[j]), 1U);
  }
  PackBlock block;
  const int held = sum_stretches(held_before);
  const bool leaves_out = leaves_zeros_out(count - held, count, static_cast<int>(sizeof(T)));
  block.form = leaves_out ? PackForm::nonzeros : PackForm::packed;
  block.held = static_cast<std::uint16_t>(leaves_out ? held : count);
  choose_codes(occurred, block);

  const auto window = static_cast<unsigned>(pack_window(block.bits));
  const auto is_held = [&](int j) {
    return leaves_out ? x[j] != 0 : j * int{kPackThreads} + t < count;
  };
  const auto is_escape = [&](int j) { return is_held(j) && top_of(x[j]) - block.base >= window; };
#pragma unroll
  for (int j = 0; j < kPackEach; ++j) {
    const std::uint32_t ballot = __ballot_sync(kAllLanes, is_escape(j));
    if (leads) escapes_before[j * kPackWarps + warp] = __popc(ballot);
  }
  block.escapes = static_cast<std::uint16_t>(sum_stretches(escapes_before));
  const int whole = count * static_cast<int>(sizeof(T));
  if (PackSections(block, count, sizeof(T)).size >= whole) block = PackBlock();
  const PackSections at(block, count, sizeof(T));

  const std::int64_t before = add_to_total(total, turn, at.size);
  if (t == 0) {
    reinterpret_cast<std::int64_t*>(out + PackLayout::kIndex)[turn] = before;
    reinterpret_cast<PackBlock*>(out + job.at.blocks)[turn] = block;
    if (turn == job.at.count - 1) {
      const std::int64_t size = job.at.payload + before + at.size;
      auto* const header = reinterpret_cast<std::int64_t*>(out);
      header[0] = kPackVersion | static_cast<std::int64_t>(job.type) << 8;
      header[1] = job.elements;
      header[2] = size;
      result->bytes = static_cast<std::uint64_t>(size);
    }
  }

  std::byte* const to = out + job.at.payload + before;
  if (t < at.size - at.end) to[at.end + t] = std::byte{0};
  if (block.form == PackForm::whole) {
#pragma unroll
    for (int j = 0; j < kPackEach; ++j) {
      const int i = j * int{kPackThreads} + t;
      if (i < count) reinterpret_cast<T*>(to)[i] = rotate_right(x[j]);
    }
    return;
  }
  if (4 * t < at.rests) reinterpret_cast<std::uint32_t*>(to)[t] = nonzeros[t];
  auto* const code_bytes = reinterpret_cast<std::uint8_t*>(codes);
#pragma unroll
  for (int j = 0; j < kPackEach; ++j) {
    const int stretch = j * kPackWarps + warp;
    const bool escapes = is_escape(j);
    const std::uint32_t ballot = __ballot_sync(kAllLanes, escapes);
    if (!is_held(j)) continue;
    const int k = leaves_out ? held_before[stretch] + lanes_before(nonzeros[stretch])
                             : j * int{kPackThreads} + t;
    for_each_part<T>(block.held, [&]<typename P>(P*, int begin, int bit) {
      reinterpret_cast<P*>(to + at.rests + begin)[k] = static_cast<P>(x[j] >> bit);
    });
    const unsigned top = top_of(x[j]);
    code_bytes[k] = static_cast<std::uint8_t>(escapes ? window : top - block.base);
    if (escapes) {
      to[at.escapes + escapes_before[stretch] + lanes_before(ballot)] = static_cast<std::byte>(top);
    }
  }
  __syncthreads();
  for (int k = 8 * t; k < block.held; k += 8 * int{kPackThreads}) {
    const int bytes = bytes_of_codes(block, k);
    store_bytes(to + at.codes + k / 8 * block.bits, join_codes(codes[k / 8], block.bits), bytes);
  }
}

/// Encodes an empty tensor: a header.
static __global__ void exponent_pack_empty(const PackJob job, std::byte* out, Result* result) {
  auto* const header = reinterpret_cast<std::int64_t*>(out);
  header[0] = kPackVersion | static_cast<std::int64_t>(job.type) << 8;
  header[1] = 0;
  header[2] = job.at.payload;
  result->bytes = static_cast<std::uint64_t>(job.at.payload);
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    exponent_pack_decode(const PackJob job, const std::byte* in, std::int64_t in_size,
                         void* target) {
  __shared__ std::uint32_t nonzeros[kPackStretches];
  __shared__ std::int32_t held_before[kPackStretches];
  __shared__ std::int32_t escapes_before[kPackStretches];
  __shared__ std::uint64_t tops[kPackElements / 8];  ///< a byte each; holds the codes first
  const std::int64_t index = blockIdx.x;
  const int count = job.elements_of(index);
  const std::int64_t begin = reinterpret_cast<const std::int64_t*>(in + PackLayout::kIndex)[index];
  const PackBlock block = reinterpret_cast<const PackBlock*>(in + job.at.blocks)[index];
  // Damaged bytes restore nothing. All threads of the block return together.
  if (!is_pack_block(block, count)) return;
  const PackSections at(block, count, sizeof(T));
  if (begin < 0 || begin % 8 != 0 || begin > in_size - job.at.payload - at.size) return;

  const std::byte* const from = in + job.at.payload + begin;
  const BlockPlace place(job.order, index * kPackElements);
  const auto t = static_cast<int>(threadIdx.x);
  const int warp = t / int{kWarp};
  const bool leads = t % int{kWarp} == 0;
  const auto store = [&](int i, T bits) {
    static_cast<T*>(target)[place.offset(static_cast<std::uint32_t>(i))] = bits;
  };
  if (block.form == PackForm::whole) {
    for (int i = t; i < count; i += int{kPackThreads}) {
      store(i, reinterpret_cast<const T*>(from)[i]);
    }
    return;
  }
  const bool leaves_out = block.form == PackForm::nonzeros;
  if (leaves_out) {
    if (t < kPackStretches) {
      const int left = count - t * kPackStretch;
      std::uint32_t word = left > 0 ? reinterpret_cast<const std::uint32_t*>(from)[t] : 0U;
      if (left > 0 && left < kPackStretch) word &= (1U << left) - 1U;
      nonzeros[t] = word;
      held_before[t] = __popc(word);
    }
    if (sum_stretches(held_before) != block.held) return;
  }
  for (int k = 8 * t; k < block.held; k += 8 * int{kPackThreads}) {
    const int bytes = bytes_of_codes(block, k);
    tops[k / 8] = part_codes(load_bytes(from + at.codes + k / 8 * block.bits, bytes), block.bits);
  }
  __syncthreads();
  auto* const top_bytes = reinterpret_cast<std::uint8_t*>(tops);
  const auto window = static_cast<unsigned>(pack_window(block.bits));
  const auto is_escape = [&](int k) { return k < block.held && top_bytes[k] == window; };
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const std::uint32_t ballot = __ballot_sync(kAllLanes, is_escape(j * int{kPackThreads} + t));
    if (leads) escapes_before[j * kPackWarps + warp] = __popc(ballot);
  }
  if (sum_stretches(escapes_before) != block.escapes) return;
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const int k = j * int{kPackThreads} + t;
    const bool escapes = is_escape(k);
    const std::uint32_t ballot = __ballot_sync(kAllLanes, escapes);
    if (k >= block.held) continue;
    const int escape = escapes_before[j * kPackWarps + warp] + lanes_before(ballot);
    top_bytes[k] = escapes ? static_cast<std::uint8_t>(from[at.escapes + escape])
                           : static_cast<std::uint8_t>(block.base + top_bytes[k]);
  }
  __syncthreads();
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const int i = j * int{kPackThreads} + t;
    if (i >= count) continue;
    int k = i;
    if (leaves_out) {
      const int stretch = j * kPackWarps + warp;
      const std::uint32_t ballot = nonzeros[stretch];
      if ((ballot >> t % int{kWarp} & 1U) == 0) {
        store(i, T{0});
        continue;
      }
      k = held_before[stretch] + lanes_before(ballot);
    }
    T x = static_cast<T>(T{top_bytes[k]} << (8 * (sizeof(T) - 1)));
    for_each_part<T>(block.held, [&]<typename P>(P*, int offset, int bit) {
      x = static_cast<T>(x | static_cast<T>(reinterpret_cast<const P*>(from + at.rests + offset)[k])
                                 << bit);
    });
    store(i, rotate_right(x));
  }
}

}  // namespace cinch::codecs::cuda
