// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/exponent_pack_job.cuh"

namespace cinch::codecs::cuda {

/// Reads the ballots of `count` elements that are not 0, and sets how many there are in the
/// stretches before each. @return how many there are in all
__device__ __forceinline__ int read_nonzeros(const std::byte* from, int count,
                                             std::uint32_t* nonzeros, std::int32_t* held_before) {
  const auto t = static_cast<int>(threadIdx.x);
  if (t < kPackStretches) {
    const int left = count - t * kPackStretch;
    std::uint32_t word = left > 0 ? reinterpret_cast<const std::uint32_t*>(from)[t] : 0U;
    if (left > 0 && left < kPackStretch) word &= (1U << left) - 1U;
    nonzeros[t] = word;
    held_before[t] = __popc(word);
  }
  return sum_stretches(held_before);
}

/// Reads the top bytes of the elements that are held. All threads of the block must call it.
/// @param tops a byte an element; holds the codes first @param escapes_before a word a stretch
/// @return false when the number of escapes is not the block's
__device__ __forceinline__ bool read_tops(const PackBlock& block, const PackSections& at,
                                          const std::byte* from, std::uint64_t* tops,
                                          std::int32_t* escapes_before) {
  for (int k = 8 * static_cast<int>(threadIdx.x); k < block.held; k += 8 * int{kPackThreads}) {
    const int bytes = bytes_of_codes(block, k);
    tops[k / 8] = part_codes(load_bytes(from + at.codes + k / 8 * block.bits, bytes), block.bits);
  }
  __syncthreads();
  auto* const top_bytes = reinterpret_cast<std::uint8_t*>(tops);
  const auto window = static_cast<unsigned>(pack_window(block.bits));
  const auto is_escape = [&](int k) { return k < block.held && top_bytes[k] == window; };
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const std::uint32_t ballot = __ballot_sync(kAllLanes, is_escape(element_of(j)));
    if (leads_warp()) escapes_before[stretch_of(j)] = __popc(ballot);
  }
  if (sum_stretches(escapes_before) != block.escapes) return false;
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const int k = element_of(j);
    const bool escapes = is_escape(k);
    const std::uint32_t ballot = __ballot_sync(kAllLanes, escapes);
    if (k >= block.held) continue;
    const int escape = escapes_before[stretch_of(j)] + lanes_before(ballot);
    top_bytes[k] = escapes ? static_cast<std::uint8_t>(from[at.escapes + escape])
                           : static_cast<std::uint8_t>(block.base + top_bytes[k]);
  }
  __syncthreads();
  return true;
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    exponent_pack_decode(const PackJob job, const std::byte* in, std::int64_t in_size,
                         void* target) {
  __shared__ std::uint32_t nonzeros[kPackStretches];
  __shared__ std::int32_t held_before[kPackStretches];
  __shared__ std::int32_t escapes_before[kPackStretches];
  __shared__ std::uint64_t tops[kPackElements / 8];
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
  const auto store = [&](int i, T bits) {
    static_cast<T*>(target)[place.offset(static_cast<std::uint32_t>(i))] = bits;
  };
  if (block.form == PackForm::whole) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += int{kPackThreads}) {
      store(i, reinterpret_cast<const T*>(from)[i]);
    }
    return;
  }
  const bool leaves_out = block.form == PackForm::nonzeros;
  if (leaves_out && read_nonzeros(from, count, nonzeros, held_before) != block.held) return;
  if (!read_tops(block, at, from, tops, escapes_before)) return;
#pragma unroll 4
  for (int j = 0; j < kPackEach; ++j) {
    const int i = element_of(j);
    if (i >= count) continue;
    int k = i;
    if (leaves_out) {
      const std::uint32_t ballot = nonzeros[stretch_of(j)];
      if ((ballot >> threadIdx.x % kWarp & 1U) == 0) {
        store(i, T{0});
        continue;
      }
      k = held_before[stretch_of(j)] + lanes_before(ballot);
    }
    T x =
        static_cast<T>(T{reinterpret_cast<const std::uint8_t*>(tops)[k]} << (8 * (sizeof(T) - 1)));
    for_each_part<T>(block.held, [&]<typename P>(P*, int offset, int bit) {
      x = static_cast<T>(x | static_cast<T>(reinterpret_cast<const P*>(from + at.rests + offset)[k])
                                 << bit);
    });
    store(i, rotate_right(x));
  }
}

}  // namespace cinch::codecs::cuda
