// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/huffman.h"

#include <array>
#include <cmath>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::codecs {
namespace {

using testing::ElementsAre;
using Weights = std::vector<std::uint64_t>;
using Lengths = std::vector<std::uint8_t>;

Lengths lengths_for(const Weights& weights) {
  Lengths lengths(weights.size());
  make_code_lengths(weights, lengths);
  return lengths;
}

std::uint64_t cost(const Weights& weights, const Lengths& lengths) {
  return std::inner_product(weights.begin(), weights.end(), lengths.begin(), std::uint64_t{0});
}

/// The sum of weight times depth in a Huffman tree without limit: that of all inner nodes.
std::uint64_t least_cost(const Weights& weights) {
  std::priority_queue queue(std::greater<>(), weights);
  std::uint64_t total = 0;
  while (queue.size() > 1) {
    std::uint64_t sum = queue.top();
    queue.pop();
    sum += queue.top();
    queue.pop();
    total += sum;
    queue.push(sum);
  }
  return total;
}

TEST(Huffman, IsOptimalWithinTheLimit) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Weights weights(2 + random() % 400);
    for (std::uint64_t& w : weights) w = 50 + random() % (round % 3 == 0 ? 4 : 3000);
    const Lengths lengths = lengths_for(weights);
    ASSERT_TRUE(is_complete_code(lengths));
    ASSERT_EQ(cost(weights, lengths), least_cost(weights));
  }
}

TEST(Huffman, LimitsLengthsAtLittleCost) {
  Weights fibonacci = {1, 1};
  while (fibonacci.size() < 40) {
    fibonacci.push_back(fibonacci.back() + fibonacci[fibonacci.size() - 2]);
  }
  const Lengths lengths = lengths_for(fibonacci);
  EXPECT_TRUE(is_complete_code(lengths));
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), kMaxCodeBits);
  EXPECT_LT(static_cast<double>(cost(fibonacci, lengths)),
            1.01 * static_cast<double>(least_cost(fibonacci)));
  // As many symbols as can have codes of the longest kind, of very different weights.
  std::mt19937 random(2);
  Weights many(kMaxHuffmanSymbols);
  for (std::uint64_t& w : many) w = std::uint64_t{1} << random() % 50;
  EXPECT_TRUE(is_complete_code(lengths_for(many)));
}

TEST(Huffman, TiesAreBrokenBySymbol) {
  EXPECT_THAT(lengths_for({5, 5}), ElementsAre(1, 1));
  EXPECT_THAT(lengths_for({1, 1, 1}), ElementsAre(2, 2, 1));
  EXPECT_THAT(lengths_for({1, 1, 1, 1, 1}), ElementsAre(3, 3, 2, 2, 2));
}

TEST(Huffman, CodesAreCanonicalAndPrefixFree) {
  const Lengths lengths = {2, 1, 3, 3};
  std::array<HuffmanCode, 4> codes;
  make_codes(lengths, codes);
  // 10, 0, 110 and 111, read from the lowest bit up.
  EXPECT_EQ(codes[0].bits, 0b01);
  EXPECT_EQ(codes[1].bits, 0b0);
  EXPECT_EQ(codes[2].bits, 0b011);
  EXPECT_EQ(codes[3].bits, 0b111);

  std::mt19937 random(3);
  Weights weights(300);
  for (std::uint64_t& w : weights) w = 1 + (std::uint64_t{1} << random() % 30);
  const Lengths all = lengths_for(weights);
  std::vector<HuffmanCode> found(all.size());
  make_codes(all, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t j = 0; j < found.size(); ++j) {
      if (i == j || found[i].length > found[j].length) continue;
      ASSERT_NE(found[i].bits, found[j].bits & ((1U << found[i].length) - 1));
    }
  }
}

TEST(Huffman, LengthsSurviveWriting) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    Weights weights(2 + random() % 500);
    for (std::uint64_t& w : weights) w = 1 + (random() % 4 == 0 ? random() % 100000 : 0);
    const Lengths lengths = lengths_for(weights);
    std::vector<std::byte> bytes(lengths.size());
    bytes.resize(write_code_lengths(lengths, bytes));
    Lengths read(lengths.size());
    ASSERT_EQ(read_code_lengths(bytes, read), bytes.size());
    ASSERT_EQ(read, lengths);
    bytes.pop_back();
    ASSERT_EQ(read_code_lengths(bytes, read), std::nullopt);
  }
}

TEST(Huffman, IncompleteAndOverfullLengthsAreRefused) {
  EXPECT_TRUE(is_complete_code(Lengths{1, 2, 2}));
  EXPECT_FALSE(is_complete_code(Lengths{1, 2, 3}));
  EXPECT_FALSE(is_complete_code(Lengths{1, 1, 2}));
  EXPECT_FALSE(is_complete_code(Lengths{0, 1, 1}));
  EXPECT_FALSE(is_complete_code(Lengths{16, 1, 2}));
  Lengths two(2);
  constexpr std::array kRunTooLong = {std::byte{0x02}};  // three lengths of 1
  EXPECT_EQ(read_code_lengths(kRunTooLong, two), std::nullopt);
  constexpr std::array kIncomplete = {std::byte{0x11}};  // two lengths of 2
  EXPECT_EQ(read_code_lengths(kIncomplete, two), std::nullopt);
}

}  // namespace
}  // namespace cinch::codecs
