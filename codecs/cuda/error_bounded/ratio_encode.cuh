// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/blocks/result.cuh"
#include "codecs/cuda/error_bounded/ratio_tokens.cuh"

namespace cinch::codecs::cuda {

/// The plan's codes by symbol, in shared memory.
struct RatioCodeBook {
  std::uint32_t values[kValueSymbols];
  std::uint32_t runs[kRunSymbols];

  __device__ __forceinline__ void load(const RatioDevicePlan& plan) {
    for (unsigned i = threadIdx.x; i < kValueSymbols; i += kRatioThreads) {
      values[i] = plan.value_codes[i];
    }
    for (unsigned i = threadIdx.x; i < kRunSymbols; i += kRatioThreads) {
      runs[i] = plan.run_codes[i];
    }
  }
};

/// Calls put(bits, count) for each part of a token. Bits from `count` on are 0.
template <typename Put, typename Raw>
struct TokenCoder {
  const RatioCodeBook& book;
  int element_bits;
  Raw raw;  ///< raw(index in the chunk): the element's own bits
  Put& put;

  __device__ __forceinline__ void run(unsigned zeros) {
    const int bucket = bucket_of(zeros);
    code(book.runs[bucket]);
    number(zeros, bucket_bits(bucket));
  }
  __device__ __forceinline__ void escape(int symbol, unsigned i) {
    code(book.values[symbol]);
    if (symbol == kEscapeRaw) put(Put::counts_only ? 0 : raw(i), element_bits);
  }
  __device__ __forceinline__ void value(std::int32_t r) {
    const int symbol = value_symbol(r);
    code(book.values[symbol]);
    number(static_cast<std::uint32_t>(r < 0 ? -r : r), bucket_bits(bucket_of_symbol(symbol)));
  }

 private:
  __device__ __forceinline__ void code(std::uint32_t entry) {
    put(entry & 0xFFFFU, static_cast<int>(entry >> 16));
  }
  __device__ __forceinline__ void number(std::uint32_t n, int bits) {
    if (bits > 0) put(n & ((1U << bits) - 1U), bits);
  }
};

struct BitCounter {
  static constexpr bool counts_only = true;
  unsigned bits = 0;
  __device__ __forceinline__ void operator()(std::uint32_t /*bits*/, int count) {
    bits += static_cast<unsigned>(count);
  }
};

/// Writes bits to zeroed shared memory. Threads share the first and the last word that they write.
struct BitWriter {
  static constexpr bool counts_only = false;
  std::uint32_t* words;
  std::uint64_t waiting = 0;
  int filled;  ///< bits that wait, below 32

  __device__ __forceinline__ BitWriter(std::uint32_t* to, unsigned position)
      : words(to + position / 32), filled(static_cast<int>(position % 32)) {}
  __device__ __forceinline__ void operator()(std::uint32_t bits, int count) {
    waiting |= std::uint64_t{bits} << filled;
    filled += count;
    if (filled < 32) return;
    atomicOr(words++, static_cast<std::uint32_t>(waiting));
    waiting >>= 32;
    filled -= 32;
  }
  __device__ __forceinline__ void finish() {
    if (waiting != 0) atomicOr(words, static_cast<std::uint32_t>(waiting));
  }
};

/// Copies bytes from shared memory to any address of global memory, in words where possible. All
/// threads of the block must call it. @pre a readable word follows the word of the last byte
__device__ __forceinline__ void copy_out(const std::uint32_t* words, unsigned bytes,
                                         std::byte* to) {
  const auto misaligned = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to) % 4);
  const auto byte = [&](unsigned i) { return static_cast<std::byte>(words[i / 4] >> (i % 4 * 8)); };
  unsigned head = misaligned == 0 ? 0 : 4 - misaligned;
  if (head > bytes) head = bytes;
  const unsigned whole = (bytes - head) / 4;
  if (threadIdx.x < head) to[threadIdx.x] = byte(threadIdx.x);
  auto* const aligned = reinterpret_cast<std::uint32_t*>(to + head);
  for (unsigned i = threadIdx.x; i < whole; i += kRatioThreads) {
    const std::uint64_t both = words[i] | std::uint64_t{words[i + 1]} << 32;
    aligned[i] = static_cast<std::uint32_t>(both >> (8 * head));
  }
  const unsigned done = head + 4 * whole;
  if (threadIdx.x < bytes - done) to[done + threadIdx.x] = byte(done + threadIdx.x);
}

/// Where the calling thread's bits begin, and the sizes of the chunk's streams.
struct StreamPlaces {
  unsigned position = 0;    ///< in bits, from the chunk's first byte
  unsigned bytes;           ///< of the whole chunk
  std::uint64_t sizes = 0;  ///< of all streams but the last, 16 bits each: the chunk's header

  /// All threads of the block must call it. @param own the calling thread's number of bits
  __device__ __forceinline__ explicit StreamPlaces(unsigned own) : bytes(kChunkHeaderBytes) {
    __shared__ unsigned warp_bits[kRatioWarps];
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned sum = warp_sum(own);
    if (threadIdx.x % kWarp == kWarp - 1) warp_bits[warp] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned s = 0; s < kChunkStreams; ++s) {
      unsigned bits = 0;
      for (unsigned w = s * kStreamWarps; w < (s + 1) * kStreamWarps; ++w) {
        if (w == warp) position = 8 * bytes + bits + sum - own;
        bits += warp_bits[w];
      }
      const unsigned size = (bits + 7) / 8;
      if (s + 1 < kChunkStreams) sizes |= std::uint64_t{size & 0xFFFFU} << (16 * s);
      bytes += size;
    }
  }
};

/// Sets words to `count` elements of `kSize` bytes as they are. @param raw as TokenCoder's
template <unsigned kSize, typename Raw>
__device__ __forceinline__ void copy_raw(const Raw& raw, unsigned count, std::uint32_t* words) {
  constexpr unsigned kPer = 4 / kSize;
  for (unsigned i = threadIdx.x * kPer; i < count; i += kRatioThreads * kPer) {
    std::uint32_t word = raw(i);
    if (kPer == 2 && i + 1 < count) word |= raw(i + 1) << 16;
    words[i / kPer] = word;
  }
}

/// Encodes a chunk. All threads of the block must call it. @param turn of `total`
/// @param words for the chunk's codes, and later its encoded bytes, which are no more than its
/// elements' bytes
template <ElementType type>
__device__ __forceinline__ void encode_chunk(const RatioJob& job, unsigned turn, const void* source,
                                             RunningTotal* total, const RatioDevicePlan* plan,
                                             const RatioCodeBook& book, std::uint32_t* words,
                                             std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  __shared__ unsigned ends[kRatioWarps];
  const RatioChunks::Chunk chunk = job.chunks[turn];
  const auto count = static_cast<unsigned>(chunk.count);
  const BlockPlace place(job.order, chunk.begin);
  quantize_chunk<type>(job, chunk, source, plan->closes_gap != 0, words);
  __syncthreads();

  const ThreadTokens tokens(job, words, words + kChunkWords, count,
                            static_cast<Predictor>(plan->predictor), plan->runs != 0, false);
  const unsigned run_begin = tokens.run_begin(ends);  // a barrier: now all codes have been read
  for (unsigned i = threadIdx.x; i < kChunkWords; i += kRatioThreads) words[i] = 0;

  const auto raw = [&](unsigned i) {
    return std::uint32_t{static_cast<const Bits*>(source)[place.offset(i)]};
  };
  constexpr int kBits = 8 * sizeof(Bits);
  BitCounter counter;
  TokenCoder<BitCounter, decltype(raw)> sizes{book, kBits, raw, counter};
  tokens.visit(run_begin, sizes);
  const StreamPlaces places(counter.bits);
  const bool is_smaller = places.bytes < count * sizeof(Bits);
  if (is_smaller) {
    BitWriter writer(words, places.position);
    TokenCoder<BitWriter, decltype(raw)> coder{book, kBits, raw, writer};
    tokens.visit(run_begin, coder);
    writer.finish();
    if (threadIdx.x < 2) {
      atomicOr(words + threadIdx.x, static_cast<std::uint32_t>(places.sizes >> (32 * threadIdx.x)));
    }
  } else {
    copy_raw<sizeof(Bits)>(raw, count, words);
  }

  const unsigned bytes = is_smaller ? places.bytes : count * unsigned{sizeof(Bits)};
  const std::int64_t before = add_to_total(total, turn, bytes);  // also a barrier
  const std::int64_t index = RatioHeader::kBooks + (std::int64_t{plan->book_bytes} + 7) / 8 * 8;
  const std::int64_t payload = index + 8 * job.count;
  if (threadIdx.x == 0) {
    reinterpret_cast<std::int64_t*>(out + index)[turn] = before;
    if (turn == job.count - 1) {
      const std::int64_t size = payload + before + bytes;
      reinterpret_cast<std::int64_t*>(out)[2] = size;
      publish(size, result);
    }
  }
  copy_out(words, bytes, out + payload + before);
}

/// Encodes chunks until there is none left: any number of blocks of threads will do.
template <ElementType type>
__global__ void __launch_bounds__(kRatioThreads, 3)
    ratio_encode(const RatioJob job, const void* source, RunningTotal* total,
                 const RatioDevicePlan* plan, std::byte* out, Result* result) {
  CINCH_DYNAMIC_SHARED(std::uint32_t, words);
  __shared__ RatioCodeBook book;
  book.load(*plan);
  while (true) {
    const auto turn = static_cast<unsigned>(take_turn(total));  // a barrier
    if (turn >= static_cast<unsigned>(job.count)) return;
    encode_chunk<type>(job, turn, source, total, plan, book, words, out, result);
  }
}

}  // namespace cinch::codecs::cuda
