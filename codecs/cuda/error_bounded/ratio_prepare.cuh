// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/error_bounded/ratio_job.cuh"

/// The first kernel of decoding, which reads the header and makes tables of the code books.
namespace cinch::codecs::cuda {

inline constexpr unsigned kPrepareThreads = 512;
static_assert(kPrepareThreads >= RatioHeader::kMaxBookBytes && kPrepareThreads >= kValueSymbols);

/// Finds symbols of a canonical code: those of short codes in a table, others by code length.
template <unsigned kSymbols, unsigned kTableBits>
struct SymbolTable {
  static constexpr unsigned kSymbolBits = 9;
  static_assert(kSymbols <= 1U << kSymbolBits);
  std::uint16_t entry[1U << kTableBits];   ///< symbol | length << kSymbolBits; 0: longer code
  std::uint32_t beyond[kMaxCodeBits + 1];  ///< the first 15 bits above a length's codes
  std::int32_t first[kMaxCodeBits + 1];    ///< place of a length's first symbol - its code
  std::uint16_t symbols[kSymbols];         ///< in the order of their codes

  /// Finds the entry whose code is in the lowest bits of `bits`. @pre the code is complete
  __device__ __forceinline__ std::uint32_t find(std::uint32_t bits) const {
    const std::uint32_t known = entry[bits & ((1U << kTableBits) - 1U)];
    return known != 0 ? known : find_from(bits, kTableBits + 1);
  }
  __device__ __forceinline__ std::uint32_t find_from(std::uint32_t bits, unsigned length) const {
    const std::uint32_t word = __brev(bits) >> (32 - kMaxCodeBits);
    while (length < kMaxCodeBits && word >= beyond[length]) ++length;
    const auto place = first[length] + static_cast<std::int32_t>(word >> (kMaxCodeBits - length));
    return symbols[place] | length << kSymbolBits;
  }

  /// Makes the table. All threads of a block of kPrepareThreads must call it.
  /// @param words words[length] is how many of the `lengths` are `length`
  /// @return false if the code is not complete; there is no table then
  __device__ bool make(const std::uint8_t* lengths, const std::uint32_t* words) {
    const unsigned t = threadIdx.x;
    std::uint32_t used = 0;
    for (unsigned length = 1; length <= kMaxCodeBits; ++length) {
      used += words[length] << (kMaxCodeBits - length);
    }
    if (used != 1U << kMaxCodeBits) return false;
    if (t >= 1 && t <= kMaxCodeBits) {
      std::uint32_t shorter = 0;
      std::uint32_t code = 0;
      for (unsigned length = 1; length < t; ++length) {
        shorter += words[length];
        code = (code + words[length]) << 1;
      }
      beyond[t] = (code + words[t]) << (kMaxCodeBits - t);
      first[t] = static_cast<std::int32_t>(shorter) - static_cast<std::int32_t>(code);
    }
    if (t < kSymbols) {
      const unsigned length = lengths[t];
      unsigned place = 0;
      for (unsigned shorter = 1; shorter < length; ++shorter) place += words[shorter];
      for (unsigned i = 0; i < t; ++i) place += lengths[i] == length ? 1 : 0;
      symbols[place] = static_cast<std::uint16_t>(t);
    }
    __syncthreads();
    for (unsigned i = t; i < 1U << kTableBits; i += kPrepareThreads) {
      const std::uint32_t found = find_from(i, 1);
      entry[i] = static_cast<std::uint16_t>(found >> kSymbolBits <= kTableBits ? found : 0);
    }
    return true;
  }
};

/// What decoding needs of the header, in scratch memory.
struct RatioTables {
  std::uint32_t is_good;
  std::uint32_t predictor, runs, closes_gap;
  float bound;
  std::uint32_t index;  ///< offset of the index
  std::int64_t size;    ///< encoded size
  SymbolTable<kValueSymbols, 10> values;
  SymbolTable<kRunSymbols, 9> run_lengths;
};

/// Reads and checks the header, as RatioHeader::read does. Runs as one block.
static __global__ void __launch_bounds__(kPrepareThreads)
    ratio_prepare(const RatioJob job, const std::byte* in, std::int64_t in_size,
                  RatioTables* tables) {
  __shared__ std::uint8_t lengths[kValueSymbols + kRunSymbols];
  __shared__ std::uint32_t value_words[kMaxCodeBits + 1];
  __shared__ std::uint32_t run_words[kMaxCodeBits + 1];
  __shared__ std::uint32_t is_bad;
  const unsigned t = threadIdx.x;
  if (t == 0) tables->is_good = 0;
  const auto* const header = reinterpret_cast<const std::uint32_t*>(in);
  const std::uint32_t kinds = header[0];
  const float bound = float_of_bits(header[1]);
  const std::int64_t elements = reinterpret_cast<const std::int64_t*>(in)[1];
  const std::int64_t size = reinterpret_cast<const std::int64_t*>(in)[2];
  const std::uint32_t book_bytes = header[6];
  const std::uint32_t predictor = kinds >> 16 & 0xFFU;
  const std::uint32_t flags = kinds >> 24;
  if ((kinds & 0xFFFFU) != (kRatioVersion | static_cast<std::uint32_t>(job.type) << 8) ||
      predictor >= kPredictors || flags > 3 || header[7] != 0) {
    return;
  }
  if (!(bound > 0.0F) || !(bound <= 0x1.FFFFFEp127F)) return;
  if (elements != job.elements || book_bytes > RatioHeader::kMaxBookBytes) return;
  const std::int64_t index = RatioHeader::kBooks + (std::int64_t{book_bytes} + 7) / 8 * 8;
  if (size < index + 8 * job.count || size > in_size) return;

  const unsigned wanted = kValueSymbols + ((flags & 1U) != 0 ? kRunSymbols : 0);
  if (t <= kMaxCodeBits) value_words[t] = run_words[t] = 0;
  if (t == 0) is_bad = 0;
  const std::uint32_t byte =
      t < book_bytes ? static_cast<std::uint8_t>(in[RatioHeader::kBooks + t]) : 0;
  const unsigned run = t < book_bytes ? (byte & 15U) + 1 : 0;
  unsigned total = 0;
  const unsigned begin = BlockScan<kPrepareThreads>::exclusive(run, total);  // a barrier
  if (total != wanted || (begin < kValueSymbols && begin + run > kValueSymbols)) is_bad = 1;
  const unsigned length = (byte >> 4) + 1;
  if (length > kMaxCodeBits && run > 0) is_bad = 1;
  __syncthreads();
  if (is_bad != 0) return;
  for (unsigned i = begin; i < begin + run; ++i) lengths[i] = static_cast<std::uint8_t>(length);
  if (run > 0) atomicAdd((begin < kValueSymbols ? value_words : run_words) + length, run);
  __syncthreads();
  if (!tables->values.make(lengths, value_words)) return;
  if ((flags & 1U) != 0 && !tables->run_lengths.make(lengths + kValueSymbols, run_words)) return;
  if (t == 0) {
    tables->is_good = 1;
    tables->predictor = predictor;
    tables->runs = flags & 1U;
    tables->closes_gap = flags >> 1;
    tables->bound = bound;
    tables->index = static_cast<std::uint32_t>(index);
    tables->size = size;
  }
}

}  // namespace cinch::codecs::cuda
