// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/blocks/running_total.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/formats/error_bounded/error_bounded_ratio.h"

/// Shared by the kernels of error_bounded_ratio. Encoding takes four: running_total_begin clears
/// counters, ratio_survey counts the symbols of the sampled chunks, ratio_plan makes plan and code
/// books from these counts, and ratio_encode encodes in one pass, a chunk at a time by a block of
/// threads.
namespace cinch::codecs::cuda {

/// A RatioPlan in device memory.
struct RatioDevicePlan {
  std::uint32_t predictor, runs, closes_gap;
  std::uint32_t book_bytes;
  std::uint32_t value_codes[kValueSymbols];  ///< HuffmanCode: bits | length << 16
  std::uint32_t run_codes[kRunSymbols];
  std::uint8_t books[RatioHeader::kMaxBookBytes];  ///< as in the header
};

inline constexpr int kPredictors = 3;

/// How often each symbol occurs if zeros are coded as runs.
struct RatioCounts {
  std::uint32_t values[kValueSymbols];
  std::uint32_t runs[kRunSymbols];
  std::uint32_t zeros;  ///< zeros in all runs
};
inline constexpr unsigned kCountWords = sizeof(RatioCounts) / 4;

/// The counts from which a plan is made.
struct RatioSurvey {
  std::uint32_t has_zeros;             ///< then the gap stays open
  RatioCounts counts[2][kPredictors];  ///< [0]: with the gap open, [1]: closed
};

struct RatioJob {
  LogicalOrder order;
  FastDivide by_depth;
  RatioChunks chunks;
  std::int64_t count;  ///< number of chunks
  std::int64_t elements;
  ElementType type;
  float bound;
  std::array<std::int64_t, kSampleChunks> sample;  ///< only the first sampled() are set

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

  /// Number of chunks from which a plan is made.
  std::int64_t sampled() const noexcept { return std::min(count, kSampleChunks); }
};

/// Scratch memory of an encode. It follows the chunks' turns of a RunningTotal, and is cleared by
/// running_total_begin as if it were further turns.
struct RatioScratch {
  RatioDevicePlan plan;
  RatioSurvey survey;
};
inline constexpr std::int64_t kScratchTurns = (sizeof(RatioScratch) + 7) / 8;

/// Where word `i` of a chunk's codes or differences lies in shared memory. Each thread walks over
/// 16 words; the padding keeps the threads of a warp in different banks.
CINCH_HD constexpr unsigned padded(unsigned i) noexcept {
  return i + i / 16;
}
inline constexpr unsigned kChunkWords = padded(kChunkElements);

/// The kind of an element's escape, in two bits.
inline constexpr std::uint32_t kNotEscaped = 0;
inline constexpr std::uint32_t kKindRaw = 1;  ///< 2 and 3 follow in the order of the symbols
CINCH_HD constexpr std::uint32_t kind_of_escape(int escape) noexcept {
  return escape == 0 ? kNotEscaped : static_cast<std::uint32_t>(escape - kEscapeRaw) + kKindRaw;
}
CINCH_HD constexpr int escape_of_kind(std::uint32_t kind) noexcept {
  return kind == kNotEscaped ? 0 : kEscapeRaw + static_cast<int>(kind - kKindRaw);
}

}  // namespace cinch::codecs::cuda
