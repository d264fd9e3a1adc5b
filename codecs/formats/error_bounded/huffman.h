// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codecs/formats/error_bounded/huffman_lengths.h"

/// Canonical Huffman codes of limited length, for alphabets of 2 to kMaxHuffmanSymbols symbols,
/// each of which has a code. All arithmetic is in integers and ties are broken by symbol, so equal
/// weights give equal codes everywhere.
namespace cinch::codecs {

inline constexpr std::size_t kMaxHuffmanSymbols = 1024;

/// A symbol's code as it is written to a stream that fills from bit 0 up.
struct HuffmanCode {
  std::uint16_t bits = 0;
  std::uint8_t length = 0;
};

/// Code lengths, 1 to kMaxCodeBits, that minimize the sum of weight times length, except for the
/// cost of the limit: longer lengths are cut to it, and the longest of the others grow until the
/// code is prefix-free again.
/// @pre weights.size() == lengths.size(), weights are positive, their sum is below 2^63
void make_code_lengths(std::span<const std::uint64_t> weights, std::span<std::uint8_t> lengths);

/// Whether all lengths are 1 to kMaxCodeBits and the code words are used up exactly.
bool is_complete_code(std::span<const std::uint8_t> lengths) noexcept;

/// The canonical codes: shorter ones first, then by symbol. @pre is_complete_code(lengths)
void make_codes(std::span<const std::uint8_t> lengths, std::span<HuffmanCode> codes) noexcept;

/// Writes lengths as bytes: length - 1 in the upper four bits, the number of consecutive symbols
/// that share it, minus 1, in the lower ones. @return the bytes written, at most lengths.size()
std::size_t write_code_lengths(std::span<const std::uint8_t> lengths,
                               std::span<std::byte> out) noexcept;

/// Reads what write_code_lengths wrote. @return the bytes read; nullopt if `in` is too short or the
/// lengths are not those of a complete code
std::optional<std::size_t> read_code_lengths(std::span<const std::byte> in,
                                             std::span<std::uint8_t> lengths) noexcept;

}  // namespace cinch::codecs
