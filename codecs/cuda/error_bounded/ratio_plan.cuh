// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/error_bounded/ratio_tokens.cuh"

/// Makes plans on the device, in the same steps as RatioPlan::make.
namespace cinch::codecs::cuda {

/// Counts the symbols of sampled chunks, from the `first` on, for each predictor, a block of
/// threads a chunk: with a loop over chunks it would take more registers than leave room for
/// blocks. Whether the gap is closed depends on all chunks, so a chunk without zeros is counted for
/// both cases.
template <ElementType type>
__global__ void __launch_bounds__(kRatioThreads, 2)  // with three blocks it would spill
    ratio_survey(const RatioJob job, unsigned first, const void* source, RatioSurvey* survey) {
  CINCH_DYNAMIC_SHARED(std::uint32_t, codes);
  std::uint32_t* const differences = codes + kChunkWords;
  __shared__ RatioCounts counts;
  __shared__ unsigned ends[kRatioWarps];
  __shared__ std::uint32_t any_zeros;
  auto* const counters = reinterpret_cast<std::uint32_t*>(&counts);
  const RatioChunks::Chunk chunk = job.chunks[job.sample[first + blockIdx.x]];
  if (threadIdx.x == 0) any_zeros = 0;
  __syncthreads();
  if (quantize_chunk<type>(job, chunk, source, false, codes)) any_zeros = 1;
  __syncthreads();
  const bool has_zeros = any_zeros != 0;
  if (has_zeros && threadIdx.x == 0) atomicOr(&survey->has_zeros, 1U);

  struct {
    RatioCounts& counts;
    __device__ void run(unsigned zeros) {
      atomicAdd(&counts.runs[bucket_of(zeros)], 1U);
      if (zeros > 0) atomicAdd(&counts.zeros, zeros);
    }
    __device__ void escape(int symbol, unsigned /*i*/) { atomicAdd(&counts.values[symbol], 1U); }
    __device__ void value(std::int32_t r) { atomicAdd(&counts.values[value_symbol(r)], 1U); }
  } counter{counts};
  for (int gap = 0; gap < (has_zeros ? 1 : 2); ++gap) {
    for (int p = 0; p < kPredictors; ++p) {
      for (unsigned i = threadIdx.x; i < kCountWords; i += kRatioThreads) counters[i] = 0;
      const ThreadTokens tokens(job, codes, differences, static_cast<unsigned>(chunk.count),
                                static_cast<Predictor>(p), true, gap != 0);
      const unsigned run_begin = tokens.run_begin(ends);  // a barrier
      tokens.visit(run_begin, counter);
      __syncthreads();
      auto* const sums = reinterpret_cast<std::uint32_t*>(&survey->counts[gap][p]);
      for (unsigned i = threadIdx.x; i < kCountWords; i += kRatioThreads) {
        if (counters[i] != 0) atomicAdd(&sums[i], counters[i]);
      }
      __syncthreads();
    }
  }
}

/// Code books, each made by a warp: for each predictor, values without runs, with runs, and runs.
inline constexpr int kValueBooks = 2 * kPredictors;
inline constexpr int kPlanBooks = kValueBooks + kPredictors;
inline constexpr unsigned kPlanThreads = kPlanBooks * kWarp;

/// A code book while it is made.
struct RatioBook {
  std::uint32_t keys[kValueSymbols];      ///< count * kKeySymbols + symbol
  std::uint32_t depths[kValueSymbols];    ///< by rank
  std::uint32_t words[kMaxCodeBits + 1];  ///< code words by length
  std::uint64_t bits;                     ///< bits of everything it codes, and of the book itself
  std::uint32_t bytes;                    ///< bytes used of `written`
  std::uint8_t lengths[kValueSymbols];
  std::byte written[kValueSymbols];

  static constexpr std::uint32_t kKeySymbols = 512;
  /// Symbols that a lane ranks.
  static constexpr int kEach = (kValueSymbols + kWarp - 1) / kWarp;
  static_assert(kValueSymbols <= kKeySymbols);
  // A sampled element adds at most two counts (escape and value). Weights are 32 times the counts.
  static_assert(kSampleChunks * kChunkElements * 2 * 32 + kValueSymbols < (std::int64_t{1} << 32) &&
                kSampleChunks * kChunkElements * 2 * kKeySymbols <= (std::int64_t{1} << 32));

  /// Makes the book of `n` symbols, as make_code_lengths does. All lanes rank symbols, and one lane
  /// builds the tree. All lanes of a warp must call it. @pre keys are set and visible to the warp
  /// @param further further(symbol): how many bits follow the symbol's code
  template <typename F>
  __device__ __forceinline__ void make(unsigned n, const F& further) {
    const unsigned lane = threadIdx.x % kWarp;
    std::uint32_t own[kEach];
    std::uint32_t rank[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const unsigned symbol = lane + kWarp * static_cast<unsigned>(k);
      own[k] = symbol < n ? keys[symbol] : 0;
      rank[k] = 0;
    }
    for (unsigned other = 0; other < n; ++other) {
      const std::uint32_t key = keys[other];
#pragma unroll
      for (int k = 0; k < kEach; ++k) rank[k] += key < own[k] ? 1 : 0;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (lane + kWarp * static_cast<unsigned>(k) < n) {
        depths[rank[k]] = 32 * (own[k] / kKeySymbols) + 1;
      }
    }
    __syncwarp();
    if (lane == 0) {
      replace_weights_by_depths(depths, n);
      for (int length = 0; length <= kMaxCodeBits; ++length) words[length] = 0;
      for (unsigned i = 0; i < n; ++i) ++words[depths[i] < kMaxCodeBits ? depths[i] : kMaxCodeBits];
      limit_code_lengths(words);
    }
    __syncwarp();
    std::uint64_t coded = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const unsigned symbol = lane + kWarp * static_cast<unsigned>(k);
      if (symbol >= n) continue;
      // The rarest symbols have the longest codes.
      int length = kMaxCodeBits;
      for (std::uint32_t longer = words[length]; longer <= rank[k]; longer += words[length]) {
        --length;
      }
      lengths[symbol] = static_cast<std::uint8_t>(length);
      coded += std::uint64_t{own[k] / kKeySymbols} *
               static_cast<std::uint64_t>(length + further(static_cast<int>(symbol)));
    }
    for (int step = 16; step > 0; step /= 2) coded += __shfl_xor_sync(kAllLanes, coded, step);
    __syncwarp();
    if (lane == 0) {
      bytes = static_cast<std::uint32_t>(write_code_lengths(lengths, n, written));
      bits = coded + 8 * bytes;
    }
  }

  /// The symbol's canonical code, in the format of RatioDevicePlan.
  __device__ __forceinline__ std::uint32_t code(unsigned symbol) const {
    const unsigned length = lengths[symbol];
    std::uint32_t word = 0;
    for (unsigned shorter = 1; shorter < length; ++shorter) word = (word + words[shorter]) << 1;
    for (unsigned i = 0; i < symbol; ++i) word += lengths[i] == length ? 1 : 0;
    return __brev(word) >> (32 - length) | length << 16;
  }
};

/// The cheapest books of values, the first of equals: 2 * predictor, plus 1 where zeros are in
/// runs.
__device__ __forceinline__ unsigned cheapest(const RatioBook* books) {
  unsigned best = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (unsigned v = 0; v < kValueBooks; ++v) {
    const std::uint64_t bits = books[v].bits + (v % 2 != 0 ? books[kValueBooks + v / 2].bits : 0);
    if (bits < least) best = v;
    if (bits < least) least = bits;
  }
  return best;
}

/// Writes everything before the index, except the encoded size.
__device__ __forceinline__ void write_header(const RatioJob& job, const RatioDevicePlan& plan,
                                             std::byte* out) {
  const std::uint32_t book_bytes = plan.book_bytes;
  if (threadIdx.x == 0) {
    auto* const header = reinterpret_cast<std::uint32_t*>(out);
    header[0] = kRatioVersion | static_cast<std::uint32_t>(job.type) << 8 | plan.predictor << 16 |
                plan.runs << 24 | plan.closes_gap << 25;
    header[1] = float_bits(job.bound);
    reinterpret_cast<std::int64_t*>(out)[1] = job.elements;
    header[6] = book_bytes;
    header[7] = 0;
  }
  for (unsigned i = threadIdx.x; i < (book_bytes + 7) / 8 * 8; i += kPlanThreads) {
    out[RatioHeader::kBooks + i] =
        i < book_bytes ? static_cast<std::byte>(plan.books[i]) : std::byte{0};
  }
}

/// Makes a plan from the survey, and writes the encoded data's header and books. Runs as one block.
static __global__ void __launch_bounds__(kPlanThreads)
    ratio_plan(const RatioJob job, const RatioSurvey* survey, RatioDevicePlan* plan,
               std::byte* out) {
  __shared__ RatioBook books[kPlanBooks];
  const unsigned t = threadIdx.x;
  const unsigned b = t / kWarp;
  const bool is_of_values = b < kValueBooks;
  const bool closes_gap = survey->has_zeros == 0;
  const unsigned predictor = is_of_values ? b / 2 : b - kValueBooks;
  const RatioCounts& counts = survey->counts[closes_gap ? 1 : 0][predictor];
  RatioBook& book = books[b];
  const unsigned n = is_of_values ? kValueSymbols : kRunSymbols;
  for (unsigned i = t % kWarp; i < n; i += kWarp) {
    std::uint32_t count = is_of_values ? counts.values[i] : counts.runs[i];
    if (is_of_values && b % 2 == 0 && i == 0) count += counts.zeros;  // no runs
    book.keys[i] = count * RatioBook::kKeySymbols + i;
  }
  __syncwarp();
  book.make(n, [&](int symbol) {
    if (!is_of_values) return bucket_bits(symbol);
    // The bits that follow an escape do not depend on the plan.
    return symbol < kEscapeRaw ? bucket_bits(bucket_of_symbol(symbol)) : 0;
  });
  __syncthreads();

  const unsigned best = cheapest(books);
  const RatioBook& values = books[best];
  const RatioBook& run_lengths = books[kValueBooks + best / 2];
  const bool runs = best % 2 != 0;
  for (unsigned i = t; i < kValueSymbols; i += kPlanThreads) plan->value_codes[i] = values.code(i);
  for (unsigned i = t; i < kRunSymbols && runs; i += kPlanThreads) {
    plan->run_codes[i] = run_lengths.code(i);
  }
  for (unsigned i = t; i < values.bytes; i += kPlanThreads) {
    plan->books[i] = static_cast<std::uint8_t>(values.written[i]);
  }
  for (unsigned i = t; i < run_lengths.bytes && runs; i += kPlanThreads) {
    plan->books[values.bytes + i] = static_cast<std::uint8_t>(run_lengths.written[i]);
  }
  if (t == 0) {
    plan->predictor = best / 2;
    plan->runs = runs ? 1 : 0;
    plan->closes_gap = closes_gap ? 1 : 0;
    plan->book_bytes = values.bytes + (runs ? run_lengths.bytes : 0);
  }
  __syncthreads();
  write_header(job, *plan, out);
}

}  // namespace cinch::codecs::cuda
