// SPDX-License-Identifier: Apache-2.0
#include "codecs/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::codecs::philox {
namespace {

using testing::ElementsAre;

constexpr std::uint32_t kAll = 0xFFFFFFFFU;

// Random123's kat_vectors, for 7 and for 10 rounds.
TEST(Philox, KnownAnswersOfSevenRounds) {
  EXPECT_THAT(encipher({{0, 0, 0, 0}}, 0, 0).word,
              ElementsAre(0x5f6fb709U, 0x0d893f64U, 0x4f121f81U, 0x4f730a48U));
  EXPECT_THAT(encipher({{kAll, kAll, kAll, kAll}}, kAll, kAll).word,
              ElementsAre(0x5207ddc2U, 0x45165e59U, 0x4d8ee751U, 0x8c52f662U));
  EXPECT_THAT(
      encipher({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0).word,
      ElementsAre(0x4dfccabaU, 0x190a87f0U, 0xc47362baU, 0xb6b5242aU));
}

TEST(Philox, KnownAnswersOfTenRounds) {
  EXPECT_THAT(encipher({{0, 0, 0, 0}}, 0, 0, 10).word,
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  EXPECT_THAT(
      encipher({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0, 10).word,
      ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(Philox, CounterIsElementThenStepAndKeyIsSeedThenEntry) {
  const RandomKey key{.seed = 0xa4093822, .entry = 0x299f31d0, .step = 0x0370734413198a2e};
  const Block expected =
      encipher({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, key.seed, key.entry);
  EXPECT_THAT(draw_block(key, 0x85a308d3243f6a88).word, testing::ElementsAreArray(expected.word));
}

TEST(Philox, EachWordGivesTwoDrawsLowHalfFirst) {
  const RandomKey key{.seed = 1, .entry = 2, .step = 3};
  const Block block = draw_block(key, 5);
  for (int lane = 0; lane < kDrawsPerBlock; ++lane) {
    const std::uint32_t word = block.word[lane / 2];
    EXPECT_EQ(draw16(key, 40 + lane), lane % 2 == 0 ? word & 0xFFFFU : word >> 16);
  }
}

}  // namespace
}  // namespace cinch::codecs::philox
