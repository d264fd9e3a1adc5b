// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/quantize.cuh"
#include "codecs/cuda/lossless/exponent_pack_job.cuh"

namespace cinch::codecs::cuda {

inline constexpr std::uint32_t kEachByte = 0x01010101U;
inline constexpr std::uint32_t kHighBits = 0x80808080U;

/// A bit for each byte of `low` and `high` whose highest bit is set.
__device__ __forceinline__ unsigned gather_high_bits(std::uint32_t low, std::uint32_t high) {
  constexpr std::uint32_t kGather = 0x00204081U;  // bits 7, 15, 23 and 31 go to 28 to 31
  return ((low & kHighBits) * kGather >> 28) | ((high & kHighBits) * kGather >> 28 << 4);
}

/// Sets the high bit of each byte of `bytes` that is at least `least`; other bits are undefined.
/// @pre the bytes are below 128
__device__ __forceinline__ std::uint32_t at_least(std::uint32_t bytes, unsigned least) {
  return bytes + (0x80U - least) * kEachByte;
}

/// Bits of `a` where those of `mask` are set, else of `b`.
__device__ __forceinline__ std::uint32_t select_bits(std::uint32_t mask, std::uint32_t a,
                                                     std::uint32_t b) {
  return (a & mask) | (b & ~mask);
}

/// In each byte all bits, where its highest is set, or none.
__device__ __forceinline__ std::uint32_t spread_high_bits(std::uint32_t bytes) {
  return (bytes >> 7 & kEachByte) * 0xFFU;
}

/// Eight elements, one after the other.
template <typename T>
struct PieceElements {
  std::uint32_t words[2 * sizeof(T)] = {};

  __device__ __forceinline__ T get(int j) const {
    if constexpr (sizeof(T) == 8) return words[2 * j] | std::uint64_t{words[2 * j + 1]} << 32;
    constexpr int kPer = sizeof(T) < 4 ? 2 : 1;
    return static_cast<T>(words[j / kPer] >> (16 * (j % kPer)));
  }
  /// @pre it is 0
  __device__ __forceinline__ void set(int j, T value) {
    if constexpr (sizeof(T) == 8) {
      words[2 * j] = static_cast<std::uint32_t>(value);
      words[2 * j + 1] = static_cast<std::uint32_t>(value >> 32);
    } else {
      constexpr int kPer = sizeof(T) < 4 ? 2 : 1;
      words[j / kPer] |= std::uint32_t{value} << (16 * (j % kPer));
    }
  }

  PieceElements() = default;

  /// Loads a piece of block `block`, which has `count` elements. What the block lacks is 0.
  __device__ __forceinline__ PieceElements(const PackJob& job, const void* source,
                                           std::int64_t block, int piece, int count) {
    const auto* const from = static_cast<const T*>(source);
    const int i = piece * kStretch;
    if (job.vectors && count == kPackElements) {
      const auto* const vectors = reinterpret_cast<const uint4*>(from + block * kPackElements + i);
#pragma unroll
      for (unsigned n = 0; n < sizeof(T) / 2; ++n) {
        const uint4 v = load_vector(vectors + n);
        words[4 * n] = v.x;
        words[4 * n + 1] = v.y;
        words[4 * n + 2] = v.z;
        words[4 * n + 3] = v.w;
      }
      return;
    }
    const BlockPlace place(job.order, block * kPackElements);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (i + j < count) set(j, from[place.offset(static_cast<std::uint32_t>(i + j))]);
    }
  }

  /// The reverse.
  __device__ __forceinline__ void store(const PackJob& job, void* target, std::int64_t block,
                                        int piece, int count) const {
    auto* const to = static_cast<T*>(target);
    const int i = piece * kStretch;
    if (job.vectors && count == kPackElements) {
      auto* const vectors = reinterpret_cast<uint4*>(to + block * kPackElements + i);
#pragma unroll
      for (unsigned n = 0; n < sizeof(T) / 2; ++n) {
        store_vector(vectors + n,
                     uint4{words[4 * n], words[4 * n + 1], words[4 * n + 2], words[4 * n + 3]});
      }
      return;
    }
    const BlockPlace place(job.order, block * kPackElements);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (i + j < count) to[place.offset(static_cast<std::uint32_t>(i + j))] = get(j);
    }
  }
};

/// Eight elements, their signs lowered, by parts. Each part of each element lies beside that of the
/// next one, as in a block's sections: first the lowest 4 bytes of all (float64), then the next 2
/// (float32 and float64), then the next one, then the tops.
template <typename T>
struct PackPiece {
  std::uint32_t words[2 * sizeof(T)];

  /// The words of the part that begins at bit `bit` of the element.
  __device__ __forceinline__ std::uint32_t* part(int bit) { return words + bit / 4; }
  __device__ __forceinline__ const std::uint32_t* part(int bit) const { return words + bit / 4; }
  static constexpr int kTop = 8 * (static_cast<int>(sizeof(T)) - 1);

  /// What a part of type P has of element `j`, in the lowest bits.
  template <typename P>
  __device__ __forceinline__ std::uint32_t get(int bit, int j) const {
    constexpr int kPer = 4 / sizeof(P);
    return part(bit)[j / kPer] >> (32 / kPer * (j % kPer));
  }
  /// Sets it. @pre it is 0
  template <typename P>
  __device__ __forceinline__ void set(int bit, int j, P value) {
    constexpr int kPer = 4 / sizeof(P);
    part(bit)[j / kPer] |= std::uint32_t{value} << (32 / kPer * (j % kPer));
  }

  __device__ __forceinline__ void from_elements(const PieceElements<T>& x) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t upper[2];  // of two elements each: the last two bytes
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pair = 2 * i + j;
        if constexpr (sizeof(T) == 2) {
          upper[j] = x.words[pair];
        } else {
          constexpr int kEach = sizeof(T) / 4;  // words
          const std::uint32_t a = x.words[2 * kEach * pair + kEach - 1];
          const std::uint32_t b = x.words[2 * kEach * pair + 2 * kEach - 1];
          part(kTop - 24)[pair] = permute_bytes(a, b, 0x5410);
          upper[j] = permute_bytes(a, b, 0x7632);
          if constexpr (sizeof(T) == 8) {
            words[2 * pair] = x.words[4 * pair];
            words[2 * pair + 1] = x.words[4 * pair + 2];
          }
        }
      }
      const std::uint32_t rests = permute_bytes(upper[0], upper[1], 0x6420);
      const std::uint32_t tops = permute_bytes(upper[0], upper[1], 0x7531);
      part(kTop - 8)[i] = select_bits(kHighBits, tops, rests);
      part(kTop)[i] = select_bits(kEachByte, rests >> 7, tops << 1);
    }
  }

  __device__ __forceinline__ void to_elements(PieceElements<T>& x) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t lowered[2] = {part(kTop - 8)[i], part(kTop)[i]};
      const std::uint32_t rests = select_bits(kHighBits, lowered[1] << 7, lowered[0]);
      const std::uint32_t tops = select_bits(kHighBits, lowered[0], lowered[1] >> 1);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pair = 2 * i + j;
        const std::uint32_t upper = permute_bytes(rests, tops, j == 0 ? 0x5140 : 0x7362);
        if constexpr (sizeof(T) == 2) {
          x.words[pair] = upper;
        } else {
          constexpr int kEach = sizeof(T) / 4;  // words
          const std::uint32_t lower = part(kTop - 24)[pair];
          x.words[2 * kEach * pair + kEach - 1] = permute_bytes(lower, upper, 0x5410);
          x.words[2 * kEach * pair + 2 * kEach - 1] = permute_bytes(lower, upper, 0x7632);
          if constexpr (sizeof(T) == 8) {
            x.words[4 * pair] = words[2 * pair];
            x.words[4 * pair + 2] = words[2 * pair + 1];
          }
        }
      }
    }
  }

  /// Not 0 if the lower half of any element's bits isn't.
  __device__ __forceinline__ std::uint32_t lower_halves() const {
    std::uint32_t any = 0;
    if constexpr (can_be_halved(sizeof(T))) {
#pragma unroll
      for (unsigned i = 0; i < sizeof(T); ++i) any |= words[i];
    }
    return any;
  }

  /// A bit for each element that is not 0.
  __device__ __forceinline__ unsigned nonzeros() const {
    std::uint32_t seen[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      std::uint32_t any = part(kTop)[i] | part(kTop - 8)[i];
      if constexpr (sizeof(T) >= 4) {
        std::uint32_t a = part(kTop - 24)[2 * i];
        std::uint32_t b = part(kTop - 24)[2 * i + 1];
        if constexpr (sizeof(T) == 8) {
          a |= nonzero_halves(words[4 * i], words[4 * i + 1]);
          b |= nonzero_halves(words[4 * i + 2], words[4 * i + 3]);
        }
        any |= permute_bytes(a | a >> 8, b | b >> 8, 0x6420);
      }
      seen[i] = any | at_least(any & ~kHighBits, 1);
    }
    return gather_high_bits(seen[0], seen[1]);
  }

 private:
  /// A word whose halves are 0 where a word is.
  static __device__ __forceinline__ std::uint32_t nonzero_halves(std::uint32_t a, std::uint32_t b) {
    return (a != 0 ? 1U : 0U) | (b != 0 ? 0x10000U : 0U);
  }
};

}  // namespace cinch::codecs::cuda
