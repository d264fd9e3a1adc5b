// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/error_bounded_ratio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

RatioCodes quantize(const Description& what, const void* source, const RatioChunks::Chunk& chunk,
                    const ErrorBound& bound, bool closes_gap) {
  RatioCodes result;
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    const std::uint64_t bits =
        load_bits(source, offset_of(what.layout, chunk.begin + i), element_size(what.type));
    const RatioCode code = ratio_code(bound, closes_gap, value_of(what.type, bits));
    result.codes.push_back(code.code);
    if (code.escape == 0) continue;
    const bool is_raw = code.escape == kEscapeRaw;
    result.escapes.push_back({static_cast<std::uint32_t>(i),
                              static_cast<std::uint32_t>(code.escape),
                              is_raw ? static_cast<std::uint32_t>(bits) : 0U});
  }
  return result;
}

/// Writes a chunk's tokens bit by bit.
class TokenWriter {
 public:
  TokenWriter(const RatioPlan& plan, int element_bits) : element_bits_(element_bits) {
    make_codes(plan.value_lengths, values_);
    if (plan.runs) make_codes(plan.run_lengths, runs_);
  }

  void run(std::uint32_t zeros) {
    const int bucket = bucket_of(zeros);
    put(runs_[bucket].bits, runs_[bucket].length);
    put(zeros, bucket_bits(bucket));
  }
  void escape(const RatioEscape& escape) {
    put(values_[escape.symbol].bits, values_[escape.symbol].length);
    if (escape.symbol == kEscapeRaw) put(escape.bits, element_bits_);
  }
  void value(std::int32_t r) {
    const int symbol = value_symbol(r);
    put(values_[symbol].bits, values_[symbol].length);
    put(static_cast<std::uint32_t>(std::abs(r)), bucket_bits(bucket_of_symbol(symbol)));
  }
  void end_stream() {
    ends_.push_back(bytes_.size());
    position_ = 8 * std::int64_t(bytes_.size());
  }

  /// The chunk: sizes of the streams, and the streams.
  std::vector<std::byte> chunk() const {
    std::vector<std::byte> all(kChunkHeaderBytes);
    std::size_t begin = 0;
    for (int s = 0; s + 1 < kChunkStreams; ++s) {
      const auto size = static_cast<std::uint16_t>(ends_[s] - begin);
      std::memcpy(all.data() + 2 * s, &size, 2);
      begin = ends_[s];
    }
    all.insert(all.end(), bytes_.begin(), bytes_.end());
    return all;
  }

 private:
  void put(std::uint32_t bits, int count) {
    bytes_.resize(static_cast<std::size_t>(bytes_for_bits(position_ + count)));
    put_bits(bytes_, position_, count, bits);
    position_ += count;
  }

  int element_bits_;
  std::array<HuffmanCode, kValueSymbols> values_;
  std::array<HuffmanCode, kRunSymbols> runs_;
  std::vector<std::byte> bytes_;
  std::vector<std::size_t> ends_;
  std::int64_t position_ = 0;
};

/// Finds symbols by their canonical codes, which grow with length and symbol.
class SymbolFinder {
 public:
  explicit SymbolFinder(std::span<const std::uint8_t> lengths) {
    for (int length = 1; length <= kMaxCodeBits; ++length) {
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] == length) symbols_[length].push_back(static_cast<int>(i));
      }
    }
  }

  /// The symbol whose code `next()` returns, bit by bit. @pre the code is complete
  template <typename F>
  int find(const F& next) const {
    std::size_t word = 0;
    for (const std::vector<int>& symbols : std::span(symbols_).subspan(1)) {
      word = 2 * word + next();
      if (word < symbols.size()) return symbols[word];
      word -= symbols.size();
    }
    return 0;
  }

 private:
  std::array<std::vector<int>, kMaxCodeBits + 1> symbols_;  ///< by the length of their codes
};

/// Reads a stream bit by bit. Past its end all bits are zero, and `good` is false.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> stream) : stream_(stream) {}

  bool good() const { return position_ <= 8 * std::int64_t(stream_.size()); }
  unsigned bit() {
    const std::int64_t at = position_++;
    return good() ? get_bits(stream_, at, 1) : 0;
  }
  std::uint32_t bits(int count) {
    std::uint32_t result = 0;
    for (int i = 0; i < count; ++i) result |= std::uint32_t{bit()} << i;
    return result;
  }
  int symbol(const SymbolFinder& finder) {
    return finder.find([&] { return bit(); });
  }
  std::uint32_t number(int bucket) { return bucket_base(bucket) + bits(bucket_bits(bucket)); }

 private:
  std::span<const std::byte> stream_;
  std::int64_t position_ = 0;
};

/// Reads the streams that were written with one plan.
struct StreamReader {
  bool runs;
  int element_bits;
  SymbolFinder values;
  SymbolFinder run_lengths;

  /// Reads the differences and escapes of one stream, whose first element is `begin` in its chunk.
  bool read(std::span<const std::byte> stream, std::int64_t begin,
            std::span<std::int32_t> differences, std::vector<RatioEscape>& escapes) const {
    BitReader reader(stream);
    for (std::size_t i = 0; i < differences.size() && reader.good(); ++i) {
      if (runs) {
        const std::uint32_t zeros = reader.number(reader.symbol(run_lengths));
        if (zeros > differences.size() - i) return false;
        i += zeros;
        if (i == differences.size()) break;
      }
      int symbol = reader.symbol(values);
      if (symbol >= kEscapeRaw) {
        const std::uint32_t bits = symbol == kEscapeRaw ? reader.bits(element_bits) : 0;
        escapes.push_back({static_cast<std::uint32_t>(begin + std::int64_t(i)),
                           static_cast<std::uint32_t>(symbol), bits});
        symbol = reader.symbol(values);
        if (symbol >= kEscapeRaw) return false;
      }
      const std::uint32_t magnitude = reader.number(bucket_of_symbol(symbol));
      differences[i] = static_cast<std::int32_t>(symbol % 2 != 0 ? magnitude : 0U - magnitude);
    }
    return reader.good();
  }
};

/// Undoes apply_prediction: each code is the sum of the differences at and before it.
void undo_prediction(Predictor predictor, const RatioChunks::Chunk& chunk,
                     std::span<std::int32_t> codes) {
  for (int axis = 0; axis < 4; ++axis) {
    if (predictor != (axis == 0 ? Predictor::plane : Predictor::lorenzo)) continue;
    std::int64_t stride = 1;
    for (int i = axis + 1; i < 4; ++i) stride *= chunk.extent[i];
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      if (i / stride % chunk.extent[axis] == 0) continue;
      const auto sum =
          static_cast<std::uint32_t>(codes[i]) + static_cast<std::uint32_t>(codes[i - stride]);
      codes[i] = static_cast<std::int32_t>(sum);
    }
  }
}

class ErrorBoundedRatioReference final : public ErrorBoundedRatioCodec {
 public:
  using ErrorBoundedRatioCodec::ErrorBoundedRatioCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override try {
    const RatioChunks chunks(what.layout);
    const ErrorBound lattices = error_bound_of(what.type, bound());
    const std::size_t size = element_size(what.type);
    const auto plan = plan_for(what, source);
    RatioHeader header = {what.type, *plan, bound(), what.layout.elements(), 0, 0};
    header.write(out.data());

    const std::int64_t payload = header.index + 8 * chunks.count();
    std::int64_t offset = 0;
    for (std::int64_t c = 0; c < chunks.count(); ++c) {
      std::memcpy(out.data() + header.index + 8 * c, &offset, 8);
      const RatioChunks::Chunk chunk = chunks[c];
      RatioCodes codes = quantize(what, source, chunk, lattices, plan->closes_gap);
      apply_prediction(plan->predictor, chunk, codes.codes);
      TokenWriter writer(*plan, 8 * int(size));
      for_each_token(codes.codes, codes.escapes, plan->runs, writer);
      std::vector<std::byte> bytes = writer.chunk();
      const std::size_t own = static_cast<std::size_t>(chunk.count) * size;
      if (bytes.size() >= own) {
        bytes.resize(own);
        for (std::int64_t i = 0; i < chunk.count; ++i) {
          store_bits(bytes.data(), i, size,
                     load_bits(source, offset_of(what.layout, chunk.begin + i), size));
        }
      }
      std::memcpy(out.data() + payload + offset, bytes.data(), bytes.size());
      offset += std::int64_t(bytes.size());
    }
    header.write_size(out.data(), payload + offset);
    report(plan, header.elements, header.size);
    return {true, static_cast<std::size_t>(header.size)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    if (!serves_bounded(reads) || !accepts(what)) return false;
    const RatioChunks chunks(what.layout);
    RatioHeader header;
    if (!header.read(in, what, chunks.count())) return false;
    const StreamReader reader = {header.plan.runs, 8 * int(element_size(what.type)),
                                 SymbolFinder(header.plan.value_lengths),
                                 SymbolFinder(header.plan.run_lengths)};
    for (std::int64_t c = 0; c < chunks.count(); ++c) {
      std::span<const std::byte> found;
      if (!find_chunk(in, header, chunks.count(), c, found)) return false;
      std::vector<std::uint64_t> elements;
      if (!decode_chunk(header, reader, chunks[c], found, elements)) return false;
      for (std::int64_t i = 0; i < chunks[c].count; ++i) {
        const float value = value_of(what.type, elements[i]);
        if (reads == Reads::sign && !std::isnan(value)) {
          elements[i] = value > 0.0F ? bits_of_one(what.type) : 0;
        }
        store_bits(target, offset_of(what.layout, chunks[c].begin + i), element_size(what.type),
                   elements[i]);
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 protected:
  RatioCodes sample(const Description& what, const void* source,
                    const RatioChunks::Chunk& chunk) const override {
    return quantize(what, source, chunk, error_bound_of(what.type, bound()), false);
  }

 private:
  static bool decode_chunk(const RatioHeader& header, const StreamReader& reader,
                           const RatioChunks::Chunk& chunk, std::span<const std::byte> in,
                           std::vector<std::uint64_t>& elements) {
    const std::size_t size = element_size(header.type);
    elements.resize(static_cast<std::size_t>(chunk.count));
    if (in.size() == elements.size() * size) {
      for (std::int64_t i = 0; i < chunk.count; ++i) elements[i] = load_bits(in.data(), i, size);
      return true;
    }
    std::array<std::span<const std::byte>, kChunkStreams> streams;
    if (!find_streams(in, streams)) return false;
    std::vector<std::int32_t> codes(elements.size());
    std::vector<RatioEscape> escapes;
    const std::int64_t length = stream_elements(chunk.count);
    for (int s = 0; s < kChunkStreams; ++s) {
      const std::int64_t begin = std::min(s * length, chunk.count);
      const std::int64_t end = std::min(begin + length, chunk.count);
      if (!reader.read(streams[s], begin, std::span(codes).subspan(begin, end - begin), escapes)) {
        return false;
      }
    }
    undo_prediction(header.plan.predictor, chunk, codes);

    const ErrorBound lattices = error_bound_of(header.type, header.bound);
    auto escape = escapes.begin();
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      const bool escaped = escape != escapes.end() && escape->position == i;
      if (escaped && escape->symbol == kEscapeRaw) {
        elements[i] = (escape++)->bits;
        continue;
      }
      const int symbol = escaped ? static_cast<int>((escape++)->symbol) : 0;
      elements[i] =
          bits_of(header.type, ratio_value(lattices, header.plan.closes_gap, codes[i], symbol));
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_error_bounded_ratio_reference(float bound, int refresh) {
  return std::make_shared<ErrorBoundedRatioReference>(bound, refresh);
}

}  // namespace cinch::codecs
