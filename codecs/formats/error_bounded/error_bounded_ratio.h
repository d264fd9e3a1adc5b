// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "codecs/codec.h"
#include "codecs/formats/error_bounded/error_bound.h"
#include "codecs/formats/error_bounded/huffman.h"
#include "codecs/host_device.h"

/// COMET's error-bounded codec (section 4.1, after cuSZ's dual quantization): codes of a lattice
/// are predicted, and the differences Huffman-coded, in about as many bits as their entropy.
///
///  1. Each element becomes a code of the coarse lattice
///  (codecs/formats/error_bounded/error_bound.h). An element that
///     this lattice does not hold is escaped: if the fine lattice holds it, its code is
///     (|fine code| + 1) / 2 and its escape says in which half of that bin it lies; else its code
///     is 0 and its own bytes are stored. A plan made from data without zeros *closes the gap* at
///     code 0: positive codes count from 0, and zeros are escaped.
///  2. A chunk is at most kChunkElements elements that are adjacent in logical order and form a box
///     of planes, slices, rows or parts of a row (`RatioChunks`). Within it, codes are replaced by
///     their differences from a prediction. Elements outside the chunk count as 0. The prediction
///     is Lorenzo's within planes (differences along each axis in turn), the same element of the
///     plane before, or nothing. Unlike cuSZ's, predictions of integers are undone exactly.
///  3. A difference r is held as a symbol (its sign and bucket) and the bits that tell the bucket's
///     numbers apart: 0 to 15 have buckets of their own, and each octave above is cut into 8 (cuSZ
///     escapes differences beyond a radius of 512).
///  4. Symbols are coded with a Huffman code. Zeros are coded like other symbols, or else as runs:
///     the number of zeros before each other element, with a code of its own.
///  5. A chunk that would not become smaller is held as its elements' bytes.
///
/// Predictor, runs, gap and code books are a *plan*. A codec object makes a plan from a sample of
/// the first tensor that it encodes. It keeps the plan for CodecSpec::refresh encodes of non-empty
/// tensors, or until a tensor needs a quarter more bytes per element than the tensor that the plan
/// was made for. Every symbol has a code, so an old plan fits any data, if badly. Encoded bytes
/// depend on what the object encoded before, so make one object for each layer. decode needs no
/// state of the object. Several threads may encode at a time. On CUDA each encode makes its own
/// plan, on the device.
///
/// Signs and zeros are exact, except that -0 decodes to +0. NaN and infinity keep their bits. Every
/// source is representable. For Reads::sign elements decode to 1 and 0, and NaN to itself.
///
/// Bytes, little-endian: version (1), element type (1), predictor (1), flags (1: bit 0 runs, bit 1
/// closed gap), bound as float32, number of elements as uint64, encoded size as uint64, size of the
/// code books as uint32, 4 bytes of 0 | lengths of the values' codes, with runs also those of the
/// runs' codes (write_code_lengths), zeros up to a multiple of 8 bytes | each chunk's offset in the
/// payload, as uint64 | payload, chunk by chunk.
///
/// A chunk as large as its elements holds them as they are. Any other is smaller: the sizes in
/// bytes of its first three streams as uint16 | four streams. Stream s has elements [s * n,
/// (s + 1) * n) of the chunk's m, n = ceil(m / 4), as tokens. Bits are filled in from bit 0 of the
/// first byte up, each token's lowest bit first:
///
///     element = [run's code, its further bits] [escape's code, for kEscapeRaw the element's bits]
///               value's code, its further bits
///
/// With runs, elements that have r = 0 and are not escaped are counted, not written. Each other
/// element is preceded by the count, and the stream ends with the last count unless that is 0.
namespace cinch::codecs {

inline constexpr std::uint8_t kRatioVersion = 1;
inline constexpr std::int64_t kChunkElements = 8192;
inline constexpr int kChunkStreams = 4;
inline constexpr std::int64_t kChunkHeaderBytes = 2 * (kChunkStreams - 1);
inline constexpr std::int64_t kSampleChunks = 32;  ///< most chunks in a plan's sample

inline constexpr int kBuckets = 192;    ///< buckets of numbers below 2^26, eight times kMaxCode
inline constexpr int kRunSymbols = 80;  ///< buckets of numbers below 2^12
inline constexpr int kEscapeRaw = 2 * kBuckets - 1;
inline constexpr int kEscapeLower = kEscapeRaw + 1;
inline constexpr int kEscapeUpper = kEscapeRaw + 2;
inline constexpr int kValueSymbols = kEscapeRaw + 3;

/// The bucket of n: one of its own for n < 16, else one of 8 in n's octave. @pre n < 2^26
CINCH_HD inline int bucket_of(std::uint32_t n) noexcept {
  const int bits = 28 - __builtin_clz(n | 8U);
  return 8 * bits + static_cast<int>(n >> bits);
}

/// How many of a number's lowest bits tell the bucket's numbers apart.
CINCH_HD inline int bucket_bits(int bucket) noexcept {
  return bucket < 8 ? 0 : bucket / 8 - 1;
}

/// The smallest number of a bucket.
CINCH_HD inline std::uint32_t bucket_base(int bucket) noexcept {
  return static_cast<std::uint32_t>(bucket - 8 * bucket_bits(bucket)) << bucket_bits(bucket);
}

/// The symbol of r: 0, 1, -1, 2, -2, … up to buckets.
CINCH_HD inline int value_symbol(std::int32_t r) noexcept {
  const auto bits = static_cast<std::uint32_t>(r);
  return 2 * bucket_of(r < 0 ? 0U - bits : bits) - (r > 0 ? 1 : 0);
}

/// The bucket of a symbol that is no escape.
CINCH_HD inline int bucket_of_symbol(int symbol) noexcept {
  return (symbol + 1) / 2;
}

enum class Predictor : std::uint8_t { none, lorenzo, plane };

/// How a source is cut into chunks. The axes are planes, d, h and w. The innermost whole boxes that
/// fit into kChunkElements (perhaps of 1 element) are grouped along the next axis, as many as fit.
struct RatioChunks {
  struct Chunk {
    std::int64_t begin;                  ///< logical index of the first element
    std::int64_t count;                  ///< elements
    std::array<std::int64_t, 4> extent;  ///< of the box that the elements form
  };

  explicit RatioChunks(const PlaneLayout& layout) noexcept;

  CINCH_HD std::int64_t count() const noexcept { return outer_ * along_; }
  CINCH_HD Chunk operator[](std::int64_t index) const noexcept {
    const std::int64_t first = index % along_ * step_;
    const std::int64_t left = extent_[axis_] - first;
    const std::int64_t boxes = left < step_ ? left : step_;
    Chunk chunk;
    chunk.begin = (index / along_ * extent_[axis_] + first) * inner_;
    chunk.count = boxes * inner_;
    for (int i = 0; i < 4; ++i) chunk.extent[i] = i < axis_ ? 1 : i == axis_ ? boxes : extent_[i];
    return chunk;
  }
  /// Whole planes in a chunk; 0 where a plane is cut.
  std::int64_t planes() const noexcept { return axis_ == 0 ? step_ : 0; }
  /// The first chunk of a plane; count() if `plane` is the layout's planes().
  /// @pre a chunk begins with the plane, or it is the layout's planes()
  std::int64_t of_plane(std::int64_t plane) const noexcept;

 private:
  std::array<std::int64_t, 4> extent_;
  int axis_;            ///< axis along which boxes are grouped
  std::int64_t inner_;  ///< elements of one box
  std::int64_t step_;   ///< boxes in a chunk
  std::int64_t outer_;  ///< lines along axis_ in the source
  std::int64_t along_;  ///< chunks along one such line
};

/// An element's code with its sign, and its escape symbol or 0.
struct RatioCode {
  std::int32_t code;
  int escape;
};

CINCH_HD inline RatioCode ratio_code(const ErrorBound& bound, bool closes_gap, float x) noexcept {
  const float magnitude = fabsf(x);
  float code = code_magnitude(magnitude, bound.coarse);
  int escape = 0;
  if (!is_held(bound, magnitude, code, bound.coarse)) {
    const float fine = code_magnitude(magnitude, bound.fine);
    if (!bound.has_fine || !is_held(bound, magnitude, fine, bound.fine)) return {0, kEscapeRaw};
    code = ceilf(0.5F * fine);
    escape = fine < 2.0F * code ? kEscapeLower : kEscapeUpper;
  }
  const auto whole = static_cast<std::int32_t>(x < 0.0F ? -code : code);
  if (!closes_gap) return {whole, escape};
  if (whole == 0) return {0, kEscapeRaw};
  return {whole > 0 ? whole - 1 : whole, escape};
}

/// The value of a code, rounded to the element's type. @pre escape != kEscapeRaw
CINCH_HD inline float ratio_value(const ErrorBound& bound, bool closes_gap, std::int32_t code,
                                  int escape) noexcept {
  float signed_code = static_cast<float>(code);
  if (closes_gap && code >= 0) signed_code += 1.0F;
  const float magnitude = fabsf(signed_code);
  const float value =
      escape == 0
          ? value_magnitude(bound.type, magnitude, bound.coarse)
          : value_magnitude(bound.type, 2.0F * magnitude - (escape == kEscapeLower ? 1.0F : 0.0F),
                            bound.fine);
  return signed_code < 0.0F ? -value : value;
}

/// An escaped element.
struct RatioEscape {
  std::uint32_t position;  ///< in its chunk
  std::uint32_t symbol;
  std::uint32_t bits;  ///< the element's own for kEscapeRaw, otherwise 0
};

/// A chunk's codes, and its escapes in the order of their positions.
struct RatioCodes {
  std::vector<std::int32_t> codes;
  std::vector<RatioEscape> escapes;
};

/// Chunk `i` of a plan's sample. Of few chunks the sample has all; of many, one from each of
/// kSampleChunks equal parts, at varying offsets so that it doesn't follow a period of the data.
/// @pre i < min(chunks, kSampleChunks)
std::int64_t sampled_chunk(std::int64_t chunks, std::int64_t i) noexcept;

/// Elements in each stream of a chunk; the last streams may have fewer.
CINCH_HD inline std::int64_t stream_elements(std::int64_t chunk_elements) noexcept {
  return (chunk_elements + kChunkStreams - 1) / kChunkStreams;
}

/// Replaces codes by their differences from the prediction.
void apply_prediction(Predictor predictor, const RatioChunks::Chunk& chunk,
                      std::span<std::int32_t> codes) noexcept;

/// For each stream of a chunk in turn, calls out.run(zeros), out.escape(escape) and out.value(r)
/// for the tokens, then out.end_stream().
template <typename Out>
void for_each_token(std::span<const std::int32_t> differences, std::span<const RatioEscape> escapes,
                    bool runs, Out& out) {
  const auto count = static_cast<std::int64_t>(differences.size());
  const std::int64_t length = stream_elements(count);
  auto escape = escapes.begin();
  std::int64_t i = 0;
  for (int s = 1; s <= kChunkStreams; ++s) {
    std::uint32_t zeros = 0;
    for (; i < std::min(s * length, count); ++i) {
      const bool escaped = escape != escapes.end() && escape->position == i;
      if (runs && !escaped && differences[i] == 0) {
        ++zeros;
        continue;
      }
      if (runs) out.run(zeros);
      zeros = 0;
      if (escaped) out.escape(*escape++);
      out.value(differences[i]);
    }
    if (zeros > 0) out.run(zeros);
    out.end_stream();
  }
}

struct RatioPlan {
  Predictor predictor = Predictor::none;
  bool runs = false;
  bool closes_gap = false;
  std::array<std::uint8_t, kValueSymbols> value_lengths = {};
  std::array<std::uint8_t, kRunSymbols> run_lengths = {};  ///< unused without runs

  /// The plan that holds these chunks in the fewest bits; the first one on a tie. `codes` are those
  /// of `sample`, without the gap closed; they are changed.
  static RatioPlan make(std::span<const RatioChunks::Chunk> sample, std::span<RatioCodes> codes);
};

/// Header and code books: everything before the index (the chunks' offsets).
struct RatioHeader {
  static constexpr std::int64_t kBooks = 32;
  static constexpr std::int64_t kMaxBookBytes = (kValueSymbols + kRunSymbols + 7) / 8 * 8;

  ElementType type = ElementType::float32;
  RatioPlan plan;
  float bound = 0.0F;
  std::int64_t elements = 0;
  std::int64_t size = 0;   ///< encoded size
  std::int64_t index = 0;  ///< offset of the index

  /// Writes everything before the index except the size, which write_size writes later.
  void write(std::byte* out) noexcept;
  void write_size(std::byte* out, std::int64_t bytes) noexcept;
  /// False when `in` does not begin with a header that `write` makes for this type and number of
  /// elements, when `in` is shorter than the stated size, or when that is too small for the index.
  bool read(std::span<const std::byte> in, const Description& what, std::int64_t chunks) noexcept;
};

/// Finds a chunk in the payload. False if its offsets are out of bounds.
bool find_chunk(std::span<const std::byte> in, const RatioHeader& header, std::int64_t chunks,
                std::int64_t index, std::span<const std::byte>& found) noexcept;

/// Finds a coded chunk's streams. False if their sizes exceed the chunk's.
bool find_streams(std::span<const std::byte> chunk,
                  std::array<std::span<const std::byte>, kChunkStreams>& streams) noexcept;

/// What both engines share: the plan, and everything else but encode and decode.
class ErrorBoundedRatioCodec : public Codec {
 public:
  ErrorBoundedRatioCodec(float bound, int refresh) : bound_(bound), refresh_(refresh) {}

  std::string_view name() const noexcept override { return "error_bounded_ratio"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  float bound() const noexcept { return bound_; }

  /// The codes of one chunk, without the gap closed.
  virtual RatioCodes sample(const Description& what, const void* source,
                            const RatioChunks::Chunk& chunk) const = 0;

  /// The plan for encoding a source. Counts as an encode unless the source is empty.
  std::shared_ptr<const RatioPlan> plan_for(const Description& what, const void* source) const;
  /// Tells how many bytes the encode with `plan` took, which may end the plan.
  void report(const std::shared_ptr<const RatioPlan>& plan, std::int64_t elements,
              std::int64_t bytes) const;

 private:
  RatioPlan make_plan(const Description& what, const void* source) const;

  float bound_;
  int refresh_;
  mutable std::mutex mutex_;  ///< guards the members below
  mutable std::shared_ptr<const RatioPlan> plan_;
  mutable int uses_ = 0;
  mutable double bytes_per_element_ = 0.0;  ///< of the plan's first encode, 0 before
};

/// @pre bound > 0 and finite, refresh >= 1
std::shared_ptr<const Codec> make_error_bounded_ratio_reference(float bound, int refresh);
std::shared_ptr<const Codec> make_error_bounded_ratio_cpu(float bound, int refresh);

}  // namespace cinch::codecs
