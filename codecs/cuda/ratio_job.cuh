// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/logical.cuh"
#include "codecs/cuda/running_total.cuh"
#include "codecs/error_bounded_ratio.h"

/// What the kernels of error_bounded_ratio share. Encoding is four kernels: the first one clears
/// counters (running_total_begin), the second counts symbols of the sampled chunks, the third makes
/// plan and code books of them, and the fourth encodes, a chunk a block of threads, in one pass.
namespace cinch::codecs::cuda {

/// A RatioPlan in device memory.
struct RatioDevicePlan {
  std::uint32_t predictor, runs, closes_gap;
  std::uint32_t book_bytes;
  std::uint32_t value_codes[kValueSymbols];  ///< HuffmanCode: bits | length << 16
  std::uint32_t run_codes[kRunSymbols];
  std::uint8_t books[RatioHeader::kMaxBookBytes];  ///< as headers have them
};

inline constexpr int kPredictors = 3;

/// How often each symbol occurs with runs.
struct RatioCounts {
  std::uint32_t values[kValueSymbols];
  std::uint32_t runs[kRunSymbols];
  std::uint32_t zeros;  ///< in runs
};
inline constexpr unsigned kCountWords = sizeof(RatioCounts) / 4;

/// What a plan is made from.
struct RatioSurvey {
  std::uint32_t has_zeros;             ///< the gap stays open
  RatioCounts counts[2][kPredictors];  ///< [0]: with the gap open, [1]: closed
};

struct RatioJob {
  LogicalOrder order;
  FastDivide by_depth;
  RatioChunks chunks;
  std::int64_t count;  ///< chunks
  std::int64_t elements;
  ElementType type;
  float bound;
  std::array<std::int64_t, kSampleChunks> sample;  ///< the first sampled() count

  RatioJob(const Description& what, float error_bound) noexcept
      : order(what.layout),
        by_depth(what.layout.extent[0]),
        chunks(what.layout),
        count(chunks.count()),
        elements(what.layout.elements()),
        type(what.type),
        bound(error_bound),
        sample{} {
    for (std::int64_t i = 0; i < sampled(); ++i) {
      sample[static_cast<std::size_t>(i)] = sampled_chunk(count, i);
    }
  }

  /// Chunks that a plan is made from.
  std::int64_t sampled() const noexcept { return std::min(count, kSampleChunks); }
};

/// Scratch memory of an encode, behind the chunks' turns of a RunningTotal, as if it were more of
/// them: so it is cleared with them.
struct RatioScratch {
  RatioDevicePlan plan;
  RatioSurvey survey;
};
inline constexpr std::int64_t kScratchTurns = (sizeof(RatioScratch) + 7) / 8;

/// A chunk's codes or differences in shared memory, where threads walk over 16 of them each: padded
/// so that the same step of each thread is in a bank of its own.
CINCH_HD constexpr unsigned padded(unsigned i) noexcept {
  return i + i / 16;
}
inline constexpr unsigned kChunkWords = padded(kChunkElements);

/// How an element is escaped, in two bits.
inline constexpr std::uint32_t kNotEscaped = 0;
inline constexpr std::uint32_t kKindRaw = 1;  ///< and so on in the order of the symbols
CINCH_HD constexpr std::uint32_t kind_of_escape(int escape) noexcept {
  return escape == 0 ? kNotEscaped : static_cast<std::uint32_t>(escape - kEscapeRaw) + kKindRaw;
}
CINCH_HD constexpr int escape_of_kind(std::uint32_t kind) noexcept {
  return kind == kNotEscaped ? 0 : kEscapeRaw + static_cast<int>(kind - kKindRaw);
}

}  // namespace cinch::codecs::cuda
