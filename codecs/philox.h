// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/host_device.h"

/// Philox4x32-7, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
/// 1, 2, 3" (SC 2011), with seven rounds, the fewest that pass BigCrush. Plain functions for host
/// and device without state: any thread can compute any element's draw, in any order.
namespace cinch::codecs::philox {

inline constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
inline constexpr int kRounds = 7;
/// 16-bit draws in one block of four words.
inline constexpr int kDrawsPerBlock = 8;

struct Block {
  std::uint32_t word[4];
};

/// One round, with that round's key (key0, key1).
CINCH_HD inline Block one_round(const Block& counter, std::uint32_t key0,
                                std::uint32_t key1) noexcept {
  const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter.word[0];
  const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter.word[2];
  return {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
           static_cast<std::uint32_t>(product1),
           static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
           static_cast<std::uint32_t>(product0)}};
}

/// Philox's bijection: enciphers `counter` with the key (key0, key1) in `rounds` rounds.
CINCH_HD inline Block encipher(Block counter, std::uint32_t key0, std::uint32_t key1,
                               int rounds = kRounds) noexcept {
  for (int round = 0; round < rounds; ++round) {
    counter = one_round(counter, key0, key1);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// The block of draws for elements 8 * index .. 8 * index + 7.
CINCH_HD inline Block draw_block(RandomKey key, std::uint64_t index) noexcept {
  return encipher(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
        static_cast<std::uint32_t>(key.step), static_cast<std::uint32_t>(key.step >> 32)}},
      key.seed, key.entry);
}

/// The draw, uniform on 0..65535, of the element at logical index `element`: half `element % 2`
/// (low first) of word `element % 8 / 2` of its block.
CINCH_HD inline std::uint32_t draw16(RandomKey key, std::uint64_t element) noexcept {
  const Block block = draw_block(key, element / kDrawsPerBlock);
  const unsigned lane = element % kDrawsPerBlock;
  return block.word[lane / 2] >> (lane % 2 * 16) & 0xFFFFU;
}

}  // namespace cinch::codecs::philox
