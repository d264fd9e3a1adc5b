// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/elements.cuh"
#include "codecs/cuda/ratio_job.cuh"

/// Decoding: ratio_prepare reads the header and makes tables of the code books, then ratio_decode
/// takes a chunk with each block of threads. A stream can only be read from its beginning, but a
/// reader that begins anywhere soon meets true ends of tokens. So each lane of a warp reads a part
/// of the stream, and reads it again from where the lane before really ended, until no lane's start
/// moves (after Weissenberger and Schmidt, "Massively Parallel Huffman Decoding on GPUs", 2018).
/// The first lane is right at once, so this takes at most as many rounds as there are lanes.
namespace cinch::codecs::cuda {

inline constexpr unsigned kPrepareThreads = 512;
inline constexpr unsigned kReadThreads = 256;
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

/// The encoded bytes as aligned words; zeros past their end.
struct EncodedWords {
  const std::byte* in;
  std::int64_t size;

  __device__ __forceinline__ std::uint32_t operator[](std::int64_t word) const {
    if (4 * word + 4 <= size) return reinterpret_cast<const std::uint32_t*>(in)[word];
    std::uint32_t rest = 0;
    for (std::int64_t i = 4 * word; i < size; ++i) {
      rest |= std::uint32_t{static_cast<std::uint8_t>(in[i])} << (8 * (i - 4 * word));
    }
    return rest;
  }
  /// The four bytes at any offset.
  __device__ __forceinline__ std::uint32_t at(std::int64_t byte) const {
    const std::int64_t word = byte / 4;
    const std::uint64_t both = (*this)[word] | std::uint64_t{(*this)[word + 1]} << 32;
    return static_cast<std::uint32_t>(both >> (byte % 4 * 8));
  }
};

/// Reads bits of the encoded bytes, in order.
class RatioReader {
 public:
  /// @param bit where to begin, from the first byte of `in`
  __device__ __forceinline__ RatioReader(const EncodedWords& words, std::int64_t bit)
      : words_(words), next_(bit / 32) {
    const int skipped = static_cast<int>(bit % 32);
    waiting_ = words_[next_++] >> skipped;
    filled_ = 32 - skipped;
  }

  __device__ __forceinline__ std::int64_t position() const { return 32 * next_ - filled_; }
  /// Loads bits so that at least 32 can be taken.
  __device__ __forceinline__ void fill() {
    if (filled_ >= 32) return;
    waiting_ |= std::uint64_t{words_[next_++]} << filled_;
    filled_ += 32;
  }
  /// @pre 0 <= count <= 32, and at most 32 bits are taken after each fill
  __device__ __forceinline__ std::uint32_t take(int count) {
    const auto bits = static_cast<std::uint32_t>(waiting_ & ((std::uint64_t{1} << count) - 1));
    waiting_ >>= count;
    filled_ -= count;
    return bits;
  }
  template <typename Table>
  __device__ __forceinline__ int symbol(const Table& table) {
    const std::uint32_t entry = table.find(static_cast<std::uint32_t>(waiting_));
    take(static_cast<int>(entry >> Table::kSymbolBits));
    return static_cast<int>(entry & ((1U << Table::kSymbolBits) - 1U));
  }
  __device__ __forceinline__ std::uint32_t number(int bucket) {
    return bucket_base(bucket) + take(bucket_bits(bucket));
  }

 private:
  EncodedWords words_;
  std::int64_t next_;
  std::uint64_t waiting_;
  int filled_;
};

/// A run of zeros and the element after it. If a stream ends with a run, the element is garbage.
struct RatioToken {
  std::uint32_t zeros = 0;
  std::uint32_t kind = kNotEscaped;
  std::uint32_t raw = 0;
  std::int32_t difference = 0;

  __device__ __forceinline__ RatioToken(RatioReader& reader, const RatioTables& tables,
                                        int element_bits) {
    if (tables.runs != 0) {
      reader.fill();
      zeros = reader.number(reader.symbol(tables.run_lengths));
    }
    reader.fill();
    int symbol = reader.symbol(tables.values);
    if (symbol >= kEscapeRaw) {
      kind = kind_of_escape(symbol);
      reader.fill();
      if (kind == kKindRaw) raw = reader.take(element_bits);
      reader.fill();
      symbol = reader.symbol(tables.values);
    }
    reader.fill();
    const std::uint32_t magnitude = reader.number(bucket_of_symbol(symbol));
    difference = static_cast<std::int32_t>(symbol % 2 != 0 ? magnitude : 0U - magnitude);
  }
};

/// Reads a stream with the lanes of a warp, all of which must call it.
/// @param store store(index of the element in the stream, token), called for indices below `count`
template <typename Store>
__device__ __forceinline__ void read_stream(const EncodedWords& words, const RatioTables& tables,
                                            std::int64_t begin_byte, unsigned bytes,
                                            std::uint32_t count, int element_bits,
                                            const Store& store) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t origin = 8 * begin_byte;
  const std::uint32_t bits = 8 * bytes;
  const std::uint32_t each = (bits + kWarp - 1) / kWarp;
  const std::uint32_t limit = (lane + 1) * each < bits ? (lane + 1) * each : bits;
  std::uint32_t start = lane * each;
  std::uint32_t end = start;
  std::uint32_t elements = 0;
  bool has_moved = true;
  do {
    if (has_moved) {
      elements = 0;
      end = start;
      if (start < limit) {
        RatioReader reader(words, origin + start);
        while (end < limit) {
          const RatioToken token(reader, tables, element_bits);
          elements += token.zeros + 1;
          end = static_cast<std::uint32_t>(reader.position() - origin);
        }
      }
    }
    const std::uint32_t before = __shfl_up_sync(kAllLanes, end, 1);
    has_moved = lane > 0 && before != start;
    if (has_moved) start = before;
  } while (__any_sync(kAllLanes, has_moved) != 0);

  std::uint32_t sum = elements;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const std::uint32_t before = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += before;
  }
  std::uint32_t place = sum - elements;
  if (start >= limit || place >= count) return;
  RatioReader reader(words, origin + start);
  while (start < limit) {
    const RatioToken token(reader, tables, element_bits);
    place += token.zeros;
    if (place >= count) break;
    store(place++, token);
    start = static_cast<std::uint32_t>(reader.position() - origin);
  }
}

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

/// Converts a decoded element to the requested read: its value, or 1/0 for its sign (NaN stays).
template <ElementType type>
__device__ __forceinline__ std::uint32_t as_read(Reads reads, std::uint32_t bits) {
  if (reads != Reads::sign) return bits;
  const float x = value_of<type>(bits);
  if (x != x) return bits;
  return x > 0.0F ? bits_of_one(type) : 0U;
}

template <ElementType type>
__global__ void __launch_bounds__(kReadThreads)
    ratio_decode(const RatioJob job, const std::byte* in, std::int64_t in_size, Reads reads,
                 const RatioTables* made, void* target) {
  using Bits = typename Element<type>::Bits;
  constexpr unsigned kKindsPerWord = 16;
  __shared__ std::uint32_t codes[kChunkWords];
  __shared__ std::uint32_t kinds[kChunkElements / kKindsPerWord];
  __shared__ std::uint32_t partial[kReadThreads];
  __shared__ RatioTables tables;
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < sizeof(RatioTables) / 4; i += kReadThreads) {
    reinterpret_cast<std::uint32_t*>(&tables)[i] = reinterpret_cast<const std::uint32_t*>(made)[i];
  }
  for (unsigned i = t; i < kChunkWords; i += kReadThreads) codes[i] = 0;
  for (unsigned i = t; i < kChunkElements / kKindsPerWord; i += kReadThreads) kinds[i] = 0;
  __syncthreads();
  // Damaged bytes restore nothing.
  if (tables.is_good == 0) return;
  const std::int64_t c = blockIdx.x;
  const auto* const begins = reinterpret_cast<const std::uint64_t*>(in + tables.index);
  const std::int64_t payload = tables.index + 8 * job.count;
  const auto room = static_cast<std::uint64_t>(tables.size - payload);
  const std::uint64_t begin = begins[c];
  const std::uint64_t end = c + 1 < job.count ? begins[c + 1] : room;
  if (begin > end || end > room) return;

  const RatioChunks::Chunk chunk = job.chunks[c];
  const auto count = static_cast<unsigned>(chunk.count);
  const BlockPlace place(job.order, chunk.begin);
  auto* const elements = static_cast<Bits*>(target);
  const std::int64_t from = payload + static_cast<std::int64_t>(begin);
  const EncodedWords words{in, in_size};
  if (end - begin == count * sizeof(Bits)) {
    for (unsigned i = t; i < count; i += kReadThreads) {
      const auto bits = static_cast<Bits>(words.at(from + std::int64_t{i} * sizeof(Bits)));
      elements[place.offset(i)] = static_cast<Bits>(as_read<type>(reads, bits));
    }
    return;
  }

  if (end - begin < kChunkHeaderBytes || end - begin > count * sizeof(Bits)) return;
  const unsigned warp = t / kWarp;
  const std::uint32_t low = words.at(from);
  const std::uint32_t sizes[kChunkStreams - 1] = {low & 0xFFFFU, low >> 16,
                                                  words.at(from + 4) & 0xFFFFU};
  const auto coded = static_cast<unsigned>(end - begin - kChunkHeaderBytes);
  if (sizes[0] + sizes[1] + sizes[2] > coded) return;
  unsigned stream_begin = 0;
  unsigned stream_bytes = coded - sizes[0] - sizes[1] - sizes[2];
#pragma unroll
  for (unsigned s = 0; s + 1 < kChunkStreams; ++s) {
    if (s < warp) stream_begin += sizes[s];
    if (s == warp) stream_bytes = sizes[s];
  }
  if (warp < kChunkStreams) {
    const auto length = static_cast<unsigned>(stream_elements(count));
    const unsigned first = warp * length < count ? warp * length : count;
    const unsigned some = first + length < count ? length : count - first;
    read_stream(words, tables, from + kChunkHeaderBytes + stream_begin, stream_bytes, some,
                8 * int{sizeof(Bits)}, [&](unsigned i, const RatioToken& token) {
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

  const auto extent = [&](int axis) { return static_cast<unsigned>(chunk.extent[axis]); };
  const unsigned slice = extent(2) * extent(3);
  if (tables.predictor == static_cast<std::uint32_t>(Predictor::plane)) {
    sum_lines(codes, partial, 1, extent(0), extent(1) * slice);
  } else if (tables.predictor == static_cast<std::uint32_t>(Predictor::lorenzo)) {
    sum_lines(codes, partial, extent(0), extent(1), slice);
    sum_lines(codes, partial, extent(0) * extent(1), extent(2), extent(3));
    sum_lines(codes, partial, count / extent(3), extent(3), 1);
  }

  const ErrorBound bound = error_bound_of(type, tables.bound);
  const bool closes_gap = tables.closes_gap != 0;
  const bool vectors =
      job.order.contiguous && reinterpret_cast<std::uintptr_t>(elements + chunk.begin) % 16 == 0;
  for (unsigned i = t * kStretch; i < count; i += kReadThreads * kStretch) {
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

}  // namespace cinch::codecs::cuda
