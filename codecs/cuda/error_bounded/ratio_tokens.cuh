// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/error_bounded/ratio_job.cuh"

/// Turns a chunk's elements into tokens. A block of kRatioThreads threads takes a chunk, four warps
/// take a stream, and a thread takes 16 elements of it.
namespace cinch::codecs::cuda {

inline constexpr unsigned kRatioThreads = 512;
inline constexpr unsigned kRatioWarps = kRatioThreads / kWarp;
inline constexpr unsigned kStreamThreads = kRatioThreads / kChunkStreams;
inline constexpr unsigned kStreamWarps = kStreamThreads / kWarp;
inline constexpr unsigned kRatioEach = kChunkElements / kRatioThreads;
static_assert(kRatioEach <= 32);
/// Bytes of dynamic shared memory: the codes and the differences of a chunk.
inline constexpr std::size_t kRatioShared = 2 * kChunkWords * sizeof(std::uint32_t);

/// Sets each element's padded word to 4 times its code plus its kind of escape.
/// @return whether one of the calling thread's elements is a zero that is not escaped
template <ElementType type>
__device__ __forceinline__ bool quantize_chunk(const RatioJob& job, const RatioChunks::Chunk& chunk,
                                               const void* source, bool closes_gap,
                                               std::uint32_t* words) {
  using Bits = typename Element<type>::Bits;
  const auto* const elements = static_cast<const Bits*>(source);
  const BlockPlace place(job.order, chunk.begin);
  const bool vectors =
      job.order.contiguous && reinterpret_cast<std::uintptr_t>(elements + chunk.begin) % 16 == 0;
  const ErrorBound bound = error_bound_of(type, job.bound);
  const auto count = static_cast<unsigned>(chunk.count);
  bool has_zeros = false;
  for (unsigned i = threadIdx.x * kStretch; i < count; i += kRatioThreads * kStretch) {
    const int some = count - i < kStretch ? static_cast<int>(count - i) : kStretch;
    Patterns<Bits> x;
    load_any(elements, place, i, some, vectors, x);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= some) continue;
      const RatioCode code = ratio_code(bound, closes_gap, value_of<type>(x.of[j]));
      has_zeros = has_zeros || (code.code == 0 && code.escape == 0);
      words[padded(i + j)] =
          static_cast<std::uint32_t>(code.code) << 2 | kind_of_escape(code.escape);
    }
  }
  return has_zeros;
}

/// The calling thread's elements of a chunk: their differences from the prediction, and which of
/// them are tokens.
class ThreadTokens {
 public:
  /// @param codes the chunk's words, made by quantize_chunk
  /// @param differences set to such words with differences as codes, for the thread's elements only
  /// @param gap whether to close the gap here; the codes were then made with an open gap
  __device__ __forceinline__ ThreadTokens(const RatioJob& job, const std::uint32_t* codes,
                                          std::uint32_t* differences, unsigned chunk_count,
                                          Predictor predictor, bool runs, bool gap)
      : differences_(differences), runs_(runs) {
    const unsigned stream = threadIdx.x / kStreamThreads;
    const auto length = static_cast<unsigned>(stream_elements(chunk_count));
    stream_begin_ = min_of(stream * length, chunk_count);
    stream_end_ = min_of(stream_begin_ + length, chunk_count);
    begin_ = min_of(stream_begin_ + threadIdx.x % kStreamThreads * kRatioEach, stream_end_);
    const unsigned end = min_of(begin_ + kRatioEach, stream_end_);

    const auto code = [&](unsigned i) {
      const std::int32_t c = static_cast<std::int32_t>(codes[padded(i)]) >> 2;
      return gap && c > 0 ? c - 1 : c;
    };
    const auto width = static_cast<unsigned>(job.order.layout.extent[2]);
    const unsigned slice = width * static_cast<unsigned>(job.order.layout.extent[1]);
    const auto plane = static_cast<unsigned>(job.order.layout.plane_size());
    bool has_row = false, has_slice = false;
    // The difference along h and d. That along w is the difference of two of these.
    const auto column = [&](unsigned i) {
      std::int32_t sum = code(i);
      if (has_row) sum -= code(i - width);
      if (has_slice) {
        sum -= code(i - slice);
        if (has_row) sum += code(i - slice - width);
      }
      return sum;
    };
    std::int32_t before = 0;
    unsigned w = width;
    for (unsigned i = begin_; i < end; ++i) {
      std::int32_t difference = 0;
      if (predictor == Predictor::lorenzo) {
        if (i == begin_ || w == width) {
          w = i;
          std::uint32_t h = job.order.by_width.split(w);
          const std::uint32_t d = job.order.by_height.split(h);
          has_row = h > 0;
          has_slice = d != job.by_depth.quotient(d) * job.by_depth.divisor();
          if (w > 0) before = column(i - 1);
        }
        const std::int32_t here = column(i);
        difference = w > 0 ? here - before : here;
        before = here;
        ++w;
      } else {
        difference = code(i);
        if (predictor == Predictor::plane && i >= plane) difference -= code(i - plane);
      }
      const std::uint32_t word =
          static_cast<std::uint32_t>(difference) << 2 | (codes[padded(i)] & 3U);
      differences[padded(i)] = word;
      if (!runs || word != 0) is_token_ |= 1U << (i - begin_);
    }
  }

  /// Where the run of zeros before the thread's first token begins. All threads of the block must
  /// call it. @param ends kRatioWarps words of shared memory
  __device__ __forceinline__ unsigned run_begin(unsigned* ends) const {
    const unsigned lane = threadIdx.x % kWarp;
    const unsigned warp = threadIdx.x / kWarp;
    // One past the last token up to this thread. Threads are in order, so it is the maximum so far.
    unsigned end = is_token_ == 0 ? stream_begin_
                                  : begin_ + 32U - static_cast<unsigned>(__clz(int(is_token_)));
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const unsigned other = __shfl_up_sync(kAllLanes, end, step);
      if (lane >= step && other > end) end = other;
    }
    if (lane == kWarp - 1) ends[warp] = end;
    __syncthreads();
    unsigned result = __shfl_up_sync(kAllLanes, end, 1);
    if (lane == 0) result = stream_begin_;
    for (unsigned w = warp / kStreamWarps * kStreamWarps; w < warp; ++w) {
      if (ends[w] > result) result = ends[w];
    }
    return result;
  }

  /// As for_each_token (codecs/formats/error_bounded/error_bounded_ratio.h), for the thread's
  /// elements: calls out.run(zeros), out.escape(symbol, index in the chunk) and
  /// out.value(difference).
  template <typename Out>
  __device__ __forceinline__ void visit(unsigned run_begin, Out& out) const {
    unsigned next = run_begin;  // first element whose zeros are not yet counted
    for (std::uint32_t left = is_token_; left != 0; left &= left - 1) {
      const unsigned i = begin_ + static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1;
      const std::uint32_t word = differences_[padded(i)];
      if (runs_) out.run(i - next);
      next = i + 1;
      if ((word & 3U) != kNotEscaped) out.escape(escape_of_kind(word & 3U), i);
      out.value(static_cast<std::int32_t>(word) >> 2);
    }
    const bool is_last = threadIdx.x % kStreamThreads == kStreamThreads - 1;
    if (runs_ && is_last && next < stream_end_) out.run(stream_end_ - next);
  }

 private:
  static __device__ __forceinline__ unsigned min_of(unsigned a, unsigned b) {
    return a < b ? a : b;
  }

  const std::uint32_t* differences_;
  bool runs_;
  std::uint32_t is_token_ = 0;  ///< a bit for each of the thread's elements
  unsigned begin_;              ///< in the chunk
  unsigned stream_begin_, stream_end_;
};

}  // namespace cinch::codecs::cuda
