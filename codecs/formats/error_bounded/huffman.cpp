// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/huffman.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace cinch::codecs {
void make_code_lengths(std::span<const std::uint64_t> weights, std::span<std::uint8_t> lengths) {
  const std::size_t n = weights.size();
  std::array<std::uint16_t, kMaxHuffmanSymbols> order = {};
  std::iota(order.begin(), order.begin() + n, std::uint16_t{0});
  std::sort(order.begin(), order.begin() + n, [&](std::uint16_t a, std::uint16_t b) {
    return weights[a] != weights[b] ? weights[a] < weights[b] : a < b;
  });
  std::array<std::uint64_t, kMaxHuffmanSymbols> depths = {};
  for (std::size_t i = 0; i < n; ++i) depths[i] = weights[order[i]];
  replace_weights_by_depths(depths.data(), static_cast<std::uint32_t>(n));

  std::array<std::uint32_t, kMaxCodeBits + 1> count = {};
  for (std::size_t i = 0; i < n; ++i) {
    ++count[std::min<std::uint64_t>(depths[i], kMaxCodeBits)];
  }
  limit_code_lengths(count.data());
  std::size_t next = 0;
  for (int bits = kMaxCodeBits; bits >= 1; --bits) {
    for (std::uint32_t i = 0; i < count[bits]; ++i) {
      lengths[order[next++]] = static_cast<std::uint8_t>(bits);
    }
  }
}

bool is_complete_code(std::span<const std::uint8_t> lengths) noexcept {
  std::uint32_t used = 0;
  for (const std::uint8_t length : lengths) {
    if (length < 1 || length > kMaxCodeBits) return false;
    used += 1U << (kMaxCodeBits - length);
  }
  return used == 1U << kMaxCodeBits;
}

void make_codes(std::span<const std::uint8_t> lengths, std::span<HuffmanCode> codes) noexcept {
  std::array<std::uint32_t, kMaxCodeBits + 2> next = {};
  for (const std::uint8_t length : lengths) ++next[length + 1];
  // next[bits]: first code word of that length.
  std::uint32_t word = 0;
  for (int bits = 1; bits <= kMaxCodeBits; ++bits) {
    const std::uint32_t shorter = next[bits];
    word = (word + shorter) << 1;
    next[bits] = word;
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::uint32_t bits = next[lengths[i]]++;
    std::uint32_t reversed = 0;
    for (int k = 0; k < lengths[i]; ++k, bits >>= 1) reversed = reversed << 1 | (bits & 1U);
    codes[i] = {static_cast<std::uint16_t>(reversed), lengths[i]};
  }
}

std::size_t write_code_lengths(std::span<const std::uint8_t> lengths,
                               std::span<std::byte> out) noexcept {
  return write_code_lengths(lengths.data(), static_cast<std::uint32_t>(lengths.size()), out.data());
}

std::optional<std::size_t> read_code_lengths(std::span<const std::byte> in,
                                             std::span<std::uint8_t> lengths) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < lengths.size();) {
    if (bytes == in.size()) return std::nullopt;
    const auto byte = std::to_integer<unsigned>(in[bytes++]);
    const std::size_t run = (byte & 15U) + 1;
    if (run > lengths.size() - i) return std::nullopt;
    std::fill_n(lengths.begin() + i, run, static_cast<std::uint8_t>((byte >> 4) + 1));
    i += run;
  }
  if (!is_complete_code(lengths)) return std::nullopt;
  return bytes;
}

}  // namespace cinch::codecs
