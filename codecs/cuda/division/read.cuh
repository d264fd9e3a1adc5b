// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/job.cuh"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/elements/pairs.cuh"
#include "codecs/element_bits.h"

/// What DIVISION's decoding kernels share.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDecodeThreads = 256;
inline constexpr unsigned kDecodeBlocks = 4;  ///< of a multiprocessor

/// What is read of the encoded data. A sign is a code of one bit whose step is 1.
struct DivisionRead {
  const std::byte* in;
  std::int64_t size;  ///< of the encoded data
  bool values;        ///< false: the signs, as 1 and 0
  bool masked;        ///< values, and zeros where a sign is 0
  bool whole_ranges;  ///< those of planes from a multiple of four on can be loaded together
  int bits;
  std::int64_t codes;  ///< byte offset of the codes, or of the signs

  DivisionRead(const DivisionJob& job, std::span<const std::byte> encoded, Reads reads) noexcept
      : in(encoded.data()),
        size(job.sections.end),
        values(reads != Reads::sign),
        masked(values && job.with_sign),
        whole_ranges(job.sections.ranges % 16 == 0),
        bits(values ? job.bits : 1),
        codes(values ? job.sections.codes : job.sections.signs) {}

  /// Zero point and step of a plane; the step of a poisoned one is NaN.
  __device__ __forceinline__ void range(const DivisionJob& job, std::int64_t plane, float& lo,
                                        float& step) const {
    lo = 0.0F;
    step = 1.0F;
    if (!values) return;
    const AffineRange range = load_range(job, in, plane);
    lo = float_of_bf16(range.lo);
    step = float_of_bf16(range.step);
  }

  /// Where the means of a plane's blocks begin.
  __device__ __forceinline__ const std::uint16_t* means(const DivisionJob& job,
                                                        std::int64_t plane) const {
    return reinterpret_cast<const std::uint16_t*>(in) + plane * job.block_count;
  }

  /// What the codes of a block are added to.
  __device__ __forceinline__ float base(std::uint16_t mean, float lo) const {
    return values ? float_of_bf16(mean) + lo : 0.0F;
  }
};

/// Reads the encoded data as a stream of bits, near some place.
class BitReader {
 public:
  /// @param bit the first bit that is read
  __device__ __forceinline__ BitReader(const DivisionRead& read, std::uint64_t bit)
      : words_(reinterpret_cast<const std::uint32_t*>(read.in) + (bit >> 5)),
        skipped_(static_cast<std::uint32_t>(bit) & 31U),
        bytes_(read.size - static_cast<std::int64_t>(bit >> 5 << 2)) {}

  /// Whether `load` may be called for places up to `last`.
  __device__ __forceinline__ bool reaches(std::uint32_t last) const {
    return static_cast<std::int64_t>((skipped_ + last) / 32 * 4) + 8 <= bytes_;
  }

  /// 32 bits from place `at` on, of two words.
  __device__ __forceinline__ std::uint32_t load(std::uint32_t at) const {
    const std::uint32_t* const from = words_ + (skipped_ + at) / 32;
    return joined(from[0], from[1], skipped_ + at);
  }

  /// The same near the end of the data: what is not there is 0.
  __device__ __forceinline__ std::uint32_t load_last(std::uint32_t at) const {
    const std::uint32_t word = (skipped_ + at) / 32;
    return joined(load_word(word), load_word(word + 1), skipped_ + at);
  }

 private:
  static __device__ __forceinline__ std::uint32_t joined(std::uint32_t low, std::uint32_t high,
                                                         std::uint32_t bit) {
#ifdef __CUDA_ARCH__
    return __funnelshift_r(low, high, bit);
#else
    return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (bit & 31U));
#endif
  }

  __device__ __forceinline__ std::uint32_t load_word(std::uint32_t word) const {
    std::uint32_t value = 0;
#pragma unroll 1
    for (std::int32_t i = 3; i >= 0; --i) {
      const std::int64_t at = std::int64_t{word} * 4 + i;
      if (at < bytes_) {
        value |= std::uint32_t{reinterpret_cast<const std::uint8_t*>(words_)[at]} << (8 * i);
      }
    }
    return value;
  }

  const std::uint32_t* words_;
  std::uint32_t skipped_;
  std::int64_t bytes_;  ///< of the data, from the first word on
};

/// A code that begins at bit `place` of a word, as float. Its bits become the lowest ones of
/// 2^(23 - place) where they are. @pre place + bits <= 23
__device__ __forceinline__ float code_at(std::uint32_t word, std::uint32_t bits,
                                         std::uint32_t place) {
  const std::uint32_t power = (127 + 23 - place) << 23;
  return float_of_bits((word & ((1U << bits) - 1) << place) | power) - float_of_bits(power);
}

/// The pattern that poisoned elements are restored as, in each element of a word.
template <ElementType type>
__device__ __forceinline__ std::uint32_t poison() {
  const auto nan = static_cast<std::uint32_t>(codecs::bits_of_nan(type));
  return kPerWord<type> == 1 ? nan : nan | nan << 16;
}

}  // namespace cinch::codecs::cuda
