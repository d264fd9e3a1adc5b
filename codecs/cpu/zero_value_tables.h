// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

/// Byte shuffles that move the codes of non-zero elements to their places among eight, and back.
namespace cinch::codecs::cpu {

template <int kBytes>
using SpreadTable = std::array<std::array<std::uint8_t, 8 * kBytes>, 256>;

/// [mask][i]: the byte, of up to 8 codes of kBytes bytes, that moves to byte i.
template <int kBytes>
constexpr SpreadTable<kBytes> make_spread_table() {
  SpreadTable<kBytes> table = {};
  for (int mask = 0; mask < 256; ++mask) {
    int code = 0;
    for (int i = 0; i < 8; ++i) {
      for (int byte = 0; byte < kBytes; ++byte) {
        table[mask][i * kBytes + byte] = static_cast<std::uint8_t>(code * kBytes + byte);
      }
      // At most 7: the ordinal past the last code is never used.
      if ((mask >> i & 1) != 0 && code < 7) ++code;
    }
  }
  return table;
}

/// [mask][i]: which of eight 16-bit codes is the i-th one held.
constexpr SpreadTable<2> make_gather_table() {
  SpreadTable<2> table = {};
  for (int mask = 0; mask < 256; ++mask) {
    int code = 0;
    for (int i = 0; i < 8; ++i) {
      if ((mask >> i & 1) == 0) continue;
      table[mask][2 * code] = static_cast<std::uint8_t>(2 * i);
      table[mask][2 * code + 1] = static_cast<std::uint8_t>(2 * i + 1);
      ++code;
    }
    // 0 past the codes that are held.
    for (; code < 8; ++code) table[mask][2 * code] = table[mask][2 * code + 1] = 0x80;
  }
  return table;
}

inline constexpr SpreadTable<1> kSpread8 = make_spread_table<1>();
inline constexpr SpreadTable<2> kSpread16 = make_spread_table<2>();
inline constexpr SpreadTable<2> kGather16 = make_gather_table();

}  // namespace cinch::codecs::cpu
