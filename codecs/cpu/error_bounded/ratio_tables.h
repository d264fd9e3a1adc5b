// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/cpu/workspace.h"
#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "codecs/formats/error_bounded/huffman.h"

/// A plan's codes as tables for the CPU's kernels. Encoding looks up numbers; decoding looks up the
/// next bits of a stream.
namespace cinch::codecs::cpu {

/// Differences of smaller magnitude have a table entry.
inline constexpr std::int32_t kTableMagnitude = 1024;
/// The longest run that a stream can hold.
inline constexpr std::int64_t kMaxRun = (kChunkElements + kChunkStreams - 1) / kChunkStreams;

/// Codes with their further bits; what is written first is in the lowest bits.
struct Token {
  std::uint64_t bits;
  std::uint64_t length;
};

/// A token that fits into 8 bytes with its length.
class ShortToken {
 public:
  ShortToken() = default;
  /// @pre token.length <= 32
  explicit ShortToken(Token token) noexcept : bits_(token.bits << 32 | token.length) {}
  operator Token() const noexcept { return {bits_ >> 32, bits_ & 0xFF}; }

 private:
  std::uint64_t bits_ = 0;
};

struct EncodeTables {
  bool runs;
  std::array<HuffmanCode, kValueSymbols> values;
  std::array<ShortToken, 2 * kTableMagnitude> differences;  ///< that of r is at r + kTableMagnitude
  std::array<ShortToken, kMaxRun + 1> run_lengths;

  explicit EncodeTables(const RatioPlan& plan) noexcept;

  /// The token of any difference; up to 37 bits.
  Token value_token(std::int32_t r) const noexcept {
    const auto bits = static_cast<std::uint32_t>(r);
    const std::uint32_t magnitude = r < 0 ? 0U - bits : bits;
    const int bucket = bucket_of(magnitude);
    return make_token(values[2 * bucket - (r > 0 ? 1 : 0)], bucket, magnitude);
  }

 private:
  static Token make_token(HuffmanCode code, int bucket, std::uint32_t number) noexcept {
    const int further = bucket_bits(bucket);
    const std::uint64_t rest = number & ((std::uint64_t{1} << further) - 1);
    return {code.bits | rest << code.length, code.length + static_cast<std::uint64_t>(further)};
  }
};

/// The meaning of a stream's next bits, in 64 bits that are loaded at once.
class Lookup {
 public:
  /// `quick`: a number of up to kQuickBits bits. `number`: any. `longer`: see LookupTable::longer.
  enum Kind : std::uint8_t { quick, number, longer, escape };
  /// Most bits of a quick number. Two quick numbers, or one and any token, fit into 57 bits.
  static constexpr int kQuickBits = 20;

  Lookup() = default;
  /// @param base the bucket's number nearest to 0; for `longer` its place; for `escape` the symbol
  /// @param further number of bits that follow the code
  Lookup(std::int32_t base, unsigned length, unsigned further, Kind kind) noexcept
      : bits_((base < 0 ? std::uint64_t{1} << 63 : 0) | std::uint64_t{kind} << 56 |
              std::uint64_t{further} << 48 | std::uint64_t{length + further} << 40 |
              std::uint64_t{length} << 32 | static_cast<std::uint32_t>(base + (base < 0))) {}

  Kind kind() const noexcept { return static_cast<Kind>(bits_ >> 56 & 3); }
  bool is_quick() const noexcept { return (bits_ & std::uint64_t{3} << 56) == 0; }
  bool are_quick(Lookup other) const noexcept { return Lookup(bits_ | other.bits_).is_quick(); }
  /// Bits of code and further bits.
  unsigned total() const noexcept { return bits_ >> 40 & 0xFF; }
  std::uint64_t skip(std::uint64_t stream) const noexcept { return stream >> (bits_ >> 40 & 63); }
  /// The same for two quick numbers together.
  unsigned total(Lookup other) const noexcept {
    return ((bits_ >> 40) + (other.bits_ >> 40)) & 0xFF;
  }
  /// For `longer` the place in that table; for `escape` the symbol.
  std::int32_t base() const noexcept { return static_cast<std::int32_t>(bits_); }
  /// The number at the beginning of `stream`: the base, moved away from 0 by the further bits f.
  /// Negative bases are stored plus 1: adding  f = -1 - f then subtracts f.
  std::int32_t number_in(std::uint64_t stream) const noexcept {
    const auto further = static_cast<std::uint32_t>(stream >> (bits_ >> 32 & 63)) &
                         ((std::uint64_t{1} << (bits_ >> 48 & 0xFF)) - 1);
    const auto sign = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits_) >> 63);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits_ + (further ^ sign)));
  }

 private:
  explicit Lookup(std::uint64_t bits) noexcept : bits_(bits) {}

  std::uint64_t bits_;
};

/// Lookup by the next kBits bits, and for longer codes by the kMaxCodeBits - kBits bits after them.
template <std::size_t symbols>
struct LookupTable {
  static constexpr int kBits = 11;
  static constexpr int kLongerBits = kMaxCodeBits - kBits;

  std::array<Lookup, 1 << kBits> first;
  /// Tables for the longer codes: at least two such codes share each beginning in a complete code.
  std::array<Lookup, (symbols / 2) << kLongerBits> longer;

  /// @param lookup_of lookup_of(symbol, length of its code) is the symbol's entry
  template <typename F>
  void fill(std::span<const std::uint8_t> lengths, const F& lookup_of) noexcept {
    std::array<HuffmanCode, symbols> codes;
    make_codes(lengths, codes);
    first.fill(Lookup(0, 0, 0, Lookup::number));
    std::int32_t tables = 0;
    for (std::size_t i = 0; i < symbols; ++i) {
      const HuffmanCode code = codes[i];
      const Lookup entry = lookup_of(static_cast<int>(i), code.length);
      if (code.length <= kBits) {
        for (std::size_t at = code.bits; at < first.size(); at += std::size_t{1} << code.length) {
          first[at] = entry;
        }
        continue;
      }
      Lookup& beginning = first[code.bits % first.size()];
      if (beginning.kind() != Lookup::longer) {
        beginning = Lookup(tables++ << kLongerBits, 0, 0, Lookup::longer);
      }
      for (std::size_t at = code.bits >> kBits; at < std::size_t{1} << kLongerBits;
           at += std::size_t{1} << (code.length - kBits)) {
        longer[beginning.base() + at] = entry;
      }
    }
  }

  /// The entry of a stream's first code; `longer` if the code has more than kBits bits.
  Lookup find_first(std::uint64_t stream) const noexcept { return first[stream % first.size()]; }
  /// The entry of a stream's first code, whatever its length.
  Lookup find(std::uint64_t stream) const noexcept {
    const Lookup entry = find_first(stream);
    if (entry.kind() != Lookup::longer) return entry;
    return longer[entry.base() + (stream >> kBits) % (1U << kLongerBits)];
  }
};

/// Codes, escapes and streams of one chunk, in a thread's buffers.
struct RatioScratch {
  // Bytes. A run, an escape, its element and a value have at most 15 + 8 + 15 + 32 + 15 + 22 bits.
  static constexpr std::int64_t kLongestTokens = 14;

  std::int32_t* codes;
  RatioEscape* escapes;
  std::byte* streams;  ///< room for a chunk's elements and then their longest tokens

  explicit RatioScratch(Workspace& work) noexcept
      : codes(work.codes.get<std::int32_t>(kChunkElements)),
        escapes(work.escapes.get<RatioEscape>(kChunkElements)),
        streams(work.stream.get<std::byte>((4 + kLongestTokens) * kChunkElements + 64)) {}

  bool good() const noexcept {
    return codes != nullptr && escapes != nullptr && streams != nullptr;
  }
};

struct DecodeTables {
  bool runs;
  LookupTable<kValueSymbols> values;
  LookupTable<kRunSymbols> run_lengths;

  explicit DecodeTables(const RatioPlan& plan) noexcept;
};

}  // namespace cinch::codecs::cpu
