// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/error_bounded/ratio_prepare.cuh"

/// Reads a stream of tokens with a warp. A stream can only be read from its beginning, but a reader
/// that begins anywhere soon meets true ends of tokens. So each lane reads a part of the stream,
/// and reads it again from where the lane before really ended, until no lane's start moves (after
/// Weissenberger and Schmidt, "Massively Parallel Huffman Decoding on GPUs", 2018). The first lane
/// is right at once, so this takes at most as many rounds as there are lanes.
namespace cinch::codecs::cuda {

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

  std::uint32_t place = warp_sum(elements) - elements;
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

}  // namespace cinch::codecs::cuda
