// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/error_bounded/ratio_job.cuh"
#include "codecs/cuda/error_bounded/ratio_reader.cuh"

/// Decoding, after ratio_prepare: a block of threads takes chunks.
namespace cinch::codecs::cuda {

inline constexpr unsigned kReadThreads = 256;

/// A chunk's encoded bytes, after the index: bytes [from, from + size) of the words.
struct EncodedChunk {
  std::int64_t from;
  std::uint64_t size;

  /// @return false when the index is damaged
  __device__ __forceinline__ bool find(const RatioJob& job, const RatioTables& tables,
                                       const std::byte* in, std::int64_t chunk) {
    const auto* const begins = reinterpret_cast<const std::uint64_t*>(in + tables.index);
    const std::int64_t payload = tables.index + 8 * job.count;
    const auto room = static_cast<std::uint64_t>(tables.size - payload);
    const std::uint64_t begin = begins[chunk];
    const std::uint64_t end = chunk + 1 < job.count ? begins[chunk + 1] : room;
    from = payload + static_cast<std::int64_t>(begin);
    size = end - begin;
    return begin <= end && end <= room;
  }

  /// Finds the calling warp's stream. @return false when the chunk's header is damaged
  __device__ __forceinline__ bool find_stream(const EncodedWords& words, std::int64_t& begin,
                                              unsigned& bytes) const {
    const unsigned warp = threadIdx.x / kWarp;
    const std::uint32_t low = words.at(from);
    const std::uint32_t sizes[kChunkStreams - 1] = {low & 0xFFFFU, low >> 16,
                                                    words.at(from + 4) & 0xFFFFU};
    const auto coded = static_cast<unsigned>(size - kChunkHeaderBytes);
    if (sizes[0] + sizes[1] + sizes[2] > coded) return false;
    begin = from + kChunkHeaderBytes;
    bytes = coded - sizes[0] - sizes[1] - sizes[2];
#pragma unroll
    for (unsigned s = 0; s + 1 < kChunkStreams; ++s) {
      if (s < warp) begin += sizes[s];
      if (s == warp) bytes = sizes[s];
    }
    return true;
  }
};

/// Replaces each code by the sum of the codes up to it along one axis. That axis has `length`
/// elements at distance `stride` in each of `outer` boxes. All threads of a block of kReadThreads
/// must call it. @param partial kReadThreads words of shared memory
__device__ __forceinline__ void sum_lines(std::uint32_t* codes, std::uint32_t* partial,
                                          unsigned outer, unsigned length, unsigned stride) {
  if (length == 1) return;
  const unsigned t = threadIdx.x;
  const unsigned lines = outer * stride;
  const auto add_up = [&](unsigned line, unsigned begin, unsigned end, std::uint32_t sum) {
    const unsigned base = line / stride * length * stride + line % stride;
    for (unsigned i = begin; i < end; ++i) {
      std::uint32_t& code = codes[padded(base + i * stride)];
      code = sum += code;
    }
    return sum;
  };
  if (lines > kReadThreads / 2) {
    for (unsigned line = t; line < lines; line += kReadThreads) add_up(line, 0, length, 0);
    __syncthreads();
    return;
  }
  // With few lines, cut each into pieces, sum these separately, then add the sum before each piece.
  unsigned pieces = kReadThreads / lines;
  if (pieces > length) pieces = length;
  const unsigned each = (length + pieces - 1) / pieces;
  const unsigned line = t % lines;
  const unsigned piece = t / lines;
  const unsigned begin = piece * each < length ? piece * each : length;
  const unsigned end = begin + each < length ? begin + each : length;
  std::uint32_t sum = add_up(line, begin, end, 0);
  partial[t] = sum;
  __syncthreads();
  for (unsigned step = 1; step < pieces; step *= 2) {
    const std::uint32_t before = piece >= step ? partial[t - step * lines] : 0;
    __syncthreads();
    partial[t] = sum += before;
    __syncthreads();
  }
  if (piece > 0 && begin < end) {
    const std::uint32_t before = partial[t - lines];
    const unsigned base = line / stride * length * stride + line % stride;
    for (unsigned i = begin; i < end; ++i) codes[padded(base + i * stride)] += before;
  }
  __syncthreads();
}

/// Turns a chunk's differences into codes. All threads of the block must call it.
/// @param partial kReadThreads words of shared memory
__device__ __forceinline__ void add_predictions(std::uint32_t predictor,
                                                const RatioChunks::Chunk& chunk,
                                                std::uint32_t* codes, std::uint32_t* partial) {
  const auto extent = [&](int axis) { return static_cast<unsigned>(chunk.extent[axis]); };
  const unsigned slice = extent(2) * extent(3);
  if (predictor == static_cast<std::uint32_t>(Predictor::plane)) {
    sum_lines(codes, partial, 1, extent(0), extent(1) * slice);
  } else if (predictor == static_cast<std::uint32_t>(Predictor::lorenzo)) {
    sum_lines(codes, partial, extent(0), extent(1), slice);
    sum_lines(codes, partial, extent(0) * extent(1), extent(2), extent(3));
    sum_lines(codes, partial, static_cast<unsigned>(chunk.count) / extent(3), extent(3), 1);
  }
}

/// Converts a decoded element to the requested read: its value, or 1/0 for its sign (NaN stays).
template <ElementType type>
__device__ __forceinline__ std::uint32_t as_read(Reads reads, std::uint32_t bits) {
  if (reads != Reads::sign) return bits;
  const float x = value_of<type>(bits);
  if (x != x) return bits;
  return x > 0.0F ? bits_of_one(type) : 0U;
}

/// Kinds of escapes, two bits an element.
inline constexpr unsigned kKindsPerWord = 16;

/// Writes a chunk's elements from their codes. Escaped raw ones are in place already.
template <ElementType type>
__device__ __forceinline__ void restore_chunk(const RatioJob& job, const RatioChunks::Chunk& chunk,
                                              const RatioTables& tables, Reads reads,
                                              const std::uint32_t* codes,
                                              const std::uint32_t* kinds,
                                              typename Element<type>::Bits* elements) {
  using Bits = typename Element<type>::Bits;
  const BlockPlace place(job.order, chunk.begin);
  const auto count = static_cast<unsigned>(chunk.count);
  const ErrorBound bound = error_bound_of(type, tables.bound);
  const bool closes_gap = tables.closes_gap != 0;
  const bool vectors =
      job.order.contiguous && reinterpret_cast<std::uintptr_t>(elements + chunk.begin) % 16 == 0;
  for (unsigned i = threadIdx.x * kStretch; i < count; i += kReadThreads * kStretch) {
    const int some = count - i < kStretch ? static_cast<int>(count - i) : kStretch;
    const std::uint32_t escaped = kinds[i / kKindsPerWord] >> (2 * (i % kKindsPerWord)) & 0xFFFFU;
    Patterns<Bits> x;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= some) continue;
      const std::uint32_t kind = escaped >> (2 * j) & 3U;
      if (kind == kKindRaw) {
        x.of[j] = elements[place.offset(i + j)];
        continue;
      }
      const auto code = static_cast<std::int32_t>(codes[padded(i + j)]);
      const float value = ratio_value(bound, closes_gap, code, escape_of_kind(kind));
      x.of[j] = static_cast<Bits>(as_read<type>(reads, bits_of<type>(value)));
    }
    store_any(elements, place, i, some, vectors, x);
  }
}

/// Restores the elements of a chunk; of a damaged one, garbage or nothing. All threads of the block
/// must call it.
template <ElementType type>
__device__ __forceinline__ void decode_chunk(const RatioJob& job, const RatioTables& tables,
                                             unsigned index, const std::byte* in,
                                             std::int64_t in_size, Reads reads, void* target) {
  using Bits = typename Element<type>::Bits;
  __shared__ std::uint32_t codes[kChunkWords];
  __shared__ std::uint32_t kinds[kChunkElements / kKindsPerWord];
  __shared__ std::uint32_t partial[kReadThreads];
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < kChunkWords; i += kReadThreads) codes[i] = 0;
  for (unsigned i = t; i < kChunkElements / kKindsPerWord; i += kReadThreads) kinds[i] = 0;
  __syncthreads();
  EncodedChunk encoded;
  if (!encoded.find(job, tables, in, index)) return;

  const RatioChunks::Chunk chunk = job.chunks[index];
  const auto count = static_cast<unsigned>(chunk.count);
  const BlockPlace place(job.order, chunk.begin);
  auto* const elements = static_cast<Bits*>(target);
  const EncodedWords words{in, in_size};
  if (encoded.size == count * sizeof(Bits)) {
    for (unsigned i = t; i < count; i += kReadThreads) {
      const auto bits = static_cast<Bits>(words.at(encoded.from + std::int64_t{i} * sizeof(Bits)));
      elements[place.offset(i)] = static_cast<Bits>(as_read<type>(reads, bits));
    }
    return;
  }

  if (encoded.size < kChunkHeaderBytes || encoded.size > count * sizeof(Bits)) return;
  std::int64_t begin = 0;
  unsigned bytes = 0;
  if (!encoded.find_stream(words, begin, bytes)) return;
  const unsigned warp = t / kWarp;
  if (warp < kChunkStreams) {
    const auto length = static_cast<unsigned>(stream_elements(count));
    const unsigned first = warp * length < count ? warp * length : count;
    const unsigned some = first + length < count ? length : count - first;
    read_stream(words, tables, begin, bytes, some, 8 * int{sizeof(Bits)},
                [&](unsigned i, const RatioToken& token) {
                  i += first;
                  codes[padded(i)] = static_cast<std::uint32_t>(token.difference);
                  if (token.kind == kNotEscaped) return;
                  atomicOr(&kinds[i / kKindsPerWord], token.kind << (2 * (i % kKindsPerWord)));
                  if (token.kind == kKindRaw) {
                    elements[place.offset(i)] = static_cast<Bits>(as_read<type>(reads, token.raw));
                  }
                });
  }
  __syncthreads();
  add_predictions(tables.predictor, chunk, codes, partial);
  restore_chunk<type>(job, chunk, tables, reads, codes, kinds, elements);
}

template <ElementType type>
__global__ void __launch_bounds__(kReadThreads)
    ratio_decode(const RatioJob job, const std::byte* in, std::int64_t in_size, Reads reads,
                 const RatioTables* made, void* target) {
  __shared__ RatioTables tables;
  for (unsigned i = threadIdx.x; i < sizeof(RatioTables) / 4; i += kReadThreads) {
    reinterpret_cast<std::uint32_t*>(&tables)[i] = reinterpret_cast<const std::uint32_t*>(made)[i];
  }
  __syncthreads();
  if (tables.is_good == 0) return;  // damaged bytes restore nothing
  take_pieces(job.count, [&](unsigned index) {
    decode_chunk<type>(job, tables, index, in, in_size, reads, target);
  });
}

}  // namespace cinch::codecs::cuda
