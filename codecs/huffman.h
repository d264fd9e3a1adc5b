// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codecs/huffman_lengths.h"

/// Canonical Huffman codes of limited length, for alphabets of 2 to kMaxHuffmanSymbols symbols, all
/// of which have a code. Integers throughout and ties broken by symbol, so that equal weights make
/// equal codes everywhere.
namespace cinch::codecs {

inline constexpr std::size_t kMaxHuffmanSymbols = 1024;

/// A symbol's code as it lies in a stream that is filled from bit 0 up.
struct HuffmanCode {
  std::uint16_t bits = 0;
  std::uint8_t length = 0;
};

/// Code lengths, 1 to kMaxCodeBits, that make the sum of weight times length smallest, but for what
/// the limit costs: lengths beyond it are cut, and the longest of the others grow until the codes
/// are prefix-free again. @pre weights.size() == lengths.size(), weights are positive, their sum is
/// below 2^63
void make_code_lengths(std::span<const std::uint64_t> weights, std::span<std::uint8_t> lengths);

/// Whether these lengths are 1 to kMaxCodeBits and use up all code words.
bool is_complete_code(std::span<const std::uint8_t> lengths) noexcept;

/// The canonical codes: shorter ones first, then by symbol. @pre is_complete_code(lengths)
void make_codes(std::span<const std::uint8_t> lengths, std::span<HuffmanCode> codes) noexcept;

/// Lengths as bytes: length - 1 in the upper four bits, number of symbols in a row that share it,
/// minus 1, in the lower ones.
/// @return the bytes written, at most lengths.size()
std::size_t write_code_lengths(std::span<const std::uint8_t> lengths,
                               std::span<std::byte> out) noexcept;

/// The way back. @return the bytes read; nothing if `in` is too short or these are no lengths of a
/// complete code
std::optional<std::size_t> read_code_lengths(std::span<const std::byte> in,
                                             std::span<std::uint8_t> lengths) noexcept;

}  // namespace cinch::codecs
