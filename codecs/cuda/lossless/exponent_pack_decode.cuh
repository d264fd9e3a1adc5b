// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/lossless/exponent_pack_piece.cuh"

namespace cinch::codecs::cuda {

/// Decodes a block of elements whose bytes lie in shared memory. All threads of the block must call
/// its functions, which have barriers.
template <typename T>
class PackDecoder {
 public:
  /// @pre is_pack_block(block, count, sizeof(T)), its sections fit into `memory`, and all threads
  /// have seen its bytes
  __device__ __forceinline__ PackDecoder(const PackBlock& block, int count, PackMemory<T>& memory)
      : block_(block), count_(count), at_(block, count, sizeof(T)), memory_(memory) {}

  /// Finds the places of what is held, and its tops. @return false when the bytes are damaged
  __device__ __forceinline__ bool prepare() {
    if (block_.form == PackForm::whole) return true;
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const int piece = piece_of(p);
      held_[p] = first_bits(in_piece(piece, count_));
      begin_[p] = piece * kStretch;
      if (block_.form == PackForm::nonzeros && held_[p] != 0) {
        held_[p] &= static_cast<unsigned>(bytes()[piece]);
      }
    }
    if (block_.form == PackForm::nonzeros) {
      const PieceSums sums = sum_bits(held_);
      if (sums.total != block_.held) return false;
#pragma unroll
      for (int p = 0; p < kPackPieces; ++p) begin_[p] = sums.before[p];
    }
    return find_tops();
  }

  /// The elements of the thread's `p`-th piece.
  __device__ __forceinline__ PieceElements<T> load(int p) const {
    PieceElements<T> elements;
    if (block_.form == PackForm::whole) {
      const auto* const words =
          reinterpret_cast<const std::uint32_t*>(bytes()) + piece_of(p) * int{2 * sizeof(T)};
#pragma unroll
      for (unsigned i = 0; i < 2 * sizeof(T); ++i) elements.words[i] = words[i];
      return elements;
    }
    PackPiece<T> x = {};
    with_halved<T>(block_,
                   [&]<bool kHalved>(std::bool_constant<kHalved>) { load_parts<kHalved>(p, x); });
    x.to_elements(elements);
    return elements;
  }

 private:
  /// Loads what is held of the thread's `p`-th piece. @param x is 0
  template <bool kHalved>
  __device__ __forceinline__ void load_parts(int p, PackPiece<T>& x) const {
    // Calls f for each part, with a null pointer to its type, where it lies, and its first bit.
    const auto for_each = [&](const auto& f) {
      for_each_part<T, kHalved>(block_.held, [&](auto* type, int begin, int bit) {
        f(type, bytes() + at_.rests + begin, bit);
      });
      f(static_cast<std::uint8_t*>(nullptr), reinterpret_cast<const std::byte*>(memory_.tops),
        PackPiece<T>::kTop);
    };
    if (block_.held == kPackElements) {
      for_each([&]<typename P>(P*, const std::byte* from, int bit) {
        const auto* const words = reinterpret_cast<const uint2*>(from + begin_[p] * int{sizeof(P)});
#pragma unroll
        for (unsigned i = 0; i < sizeof(P); ++i) {
          x.part(bit)[2 * i] = words[i].x;
          x.part(bit)[2 * i + 1] = words[i].y;
        }
      });
      return;
    }
    int k = begin_[p];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if ((held_[p] >> j & 1U) == 0) continue;
      for_each([&]<typename P>(P*, const std::byte* from, int bit) {
        x.template set<P>(bit, j, reinterpret_cast<const P*>(from)[k]);
      });
      ++k;
    }
  }

  __device__ __forceinline__ const std::byte* bytes() const {
    return reinterpret_cast<const std::byte*>(memory_.bytes);
  }

  /// The eight codes of a piece of those that are held; undefined behind the last one.
  __device__ __forceinline__ std::uint64_t load_codes(int piece) const {
    const int begin = at_.codes + piece * block_.bits;
    const auto* const words = reinterpret_cast<const std::uint32_t*>(memory_.bytes) + begin / 4;
    const int skipped = 8 * (begin % 4);
    const std::uint64_t low = words[0] | std::uint64_t{words[1]} << 32;
    const std::uint64_t high = words[1] | std::uint64_t{words[2]} << 32;
    const std::uint64_t joined = static_cast<std::uint32_t>(low >> skipped) |
                                 std::uint64_t{static_cast<std::uint32_t>(high >> skipped)} << 32;
    return part_codes(joined, block_.bits);
  }

  /// Sets the top of each element that is held.
  __device__ __forceinline__ bool find_tops() {
    unsigned escapes[kPackPieces] = {};
    const auto window = static_cast<unsigned>(pack_window(block_.bits));
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const int piece = piece_of(p);
      const int held = in_piece(piece, block_.held);
      if (held == 0) continue;
      const std::uint64_t codes = load_codes(piece);
      std::uint32_t words[2] = {static_cast<std::uint32_t>(codes),
                                static_cast<std::uint32_t>(codes >> 32)};
      const std::uint32_t high_bits[2] = {at_least(words[0], window), at_least(words[1], window)};
      escapes[p] = gather_high_bits(high_bits[0], high_bits[1]) & first_bits(held);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[i] = (words[i] & ~spread_high_bits(high_bits[i])) + block_.base * kEachByte;
      }
      memory_.tops[piece] = words[0] | std::uint64_t{words[1]} << 32;
    }
    const PieceSums sums = sum_bits(escapes);
    if (sums.total != block_.escapes) return false;
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      auto* const tops = reinterpret_cast<std::byte*>(memory_.tops + piece_of(p));
      const std::byte* escape = bytes() + at_.escapes + sums.before[p];
      for (unsigned left = escapes[p]; left != 0; left &= left - 1) {
        tops[__ffs(static_cast<int>(left)) - 1] = *escape++;
      }
    }
    __syncthreads();
    return true;
  }

  PackBlock block_;
  int count_;
  PackSections at_;
  PackMemory<T>& memory_;
  unsigned held_[kPackPieces];  ///< a bit for each element
  int begin_[kPackPieces];      ///< place of the first element that is held
};

/// Decodes a block of elements. Damaged bytes restore nothing; all threads return together.
template <typename T>
__device__ __forceinline__ void decode_pack_block(const PackJob& job, std::int64_t index,
                                                  const std::byte* in, std::int64_t in_size,
                                                  PackMemory<T>& memory, void* target) {
  const int count = job.elements_of(index);
  const std::int64_t begin = reinterpret_cast<const std::int64_t*>(in + PackLayout::kIndex)[index];
  const PackBlock block = reinterpret_cast<const PackBlock*>(in + job.at.blocks)[index];
  if (!is_pack_block(block, count, sizeof(T))) return;
  const PackSections at(block, count, sizeof(T));
  if (at.end > count * static_cast<int>(sizeof(T))) return;
  if (begin < 0 || begin % 8 != 0 || begin > in_size - job.at.payload - at.size) return;

  const auto* const from = reinterpret_cast<const std::uint64_t*>(in + job.at.payload + begin);
  for (int i = static_cast<int>(threadIdx.x); i < at.size / 8; i += int{kPackThreads}) {
    memory.bytes[i] = from[i];
  }
  __syncthreads();
  PackDecoder<T> decoder(block, count, memory);
  if (!decoder.prepare()) return;
#pragma unroll
  for (int p = 0; p < kPackPieces; ++p) {
    decoder.load(p).store(job, target, index, piece_of(p), count);
  }
}

/// Any number of blocks of threads will do.
template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    exponent_pack_decode(const PackJob job, const std::byte* in, std::int64_t in_size,
                         void* target) {
  __shared__ PackMemory<T> memory;
  for (std::int64_t index = blockIdx.x; index < job.at.count; index += gridDim.x) {
    decode_pack_block(job, index, in, in_size, memory, target);
    __syncthreads();  // all threads have read what the next turn overwrites
  }
}

}  // namespace cinch::codecs::cuda
