// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kEngines = {Engine::reference, Engine::cpu};

Description row(std::int64_t n, ElementType type) {
  return {.type = type, .layout = PlaneLayout::rows(n, n), .index_extent = {1, 1, 1}};
}

TEST(Sign, IsOneWhereTheElementIsPositive) {
  const std::vector<float> x = {0.0F,  -0.0F,     1.0F,
                                -1.0F, 0x1p-149F, -0x1p-149F,
                                3e38F, -3e38F,    std::numeric_limits<float>::infinity()};
  const Description what = row(9, ElementType::float32);
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "sign"}, engine);
    const Bytes bytes = encode(*codec, what, make_source(what, x));
    EXPECT_THAT(bytes, testing::ElementsAre(std::byte{0b01010100}, std::byte{1}));
    EXPECT_THAT(values_of(what, decode(*codec, what, bytes, Reads::sign)),
                testing::ElementsAre(0, 0, 1, 0, 1, 0, 1, 0, 1));
    EXPECT_TRUE(decode(*codec, what, bytes, Reads::values).empty());
  }
}

TEST(Sign, OfFloat64IsThatOfItsOwnValue) {
  const std::vector<double> x = {0.0, -0.0, 1e-200, -1e-200, 0x1p-1074, -0x1p-1074, 1e300, -1e300};
  const Description what = row(8, ElementType::float64);
  Bytes source(source_bytes(what));
  std::memcpy(source.data(), x.data(), source.size());
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "sign"}, engine);
    const Bytes bytes = encode(*codec, what, source);
    EXPECT_THAT(bytes, testing::ElementsAre(std::byte{0b01010100}));
    EXPECT_THAT(values_of(what, decode(*codec, what, bytes, Reads::sign)),
                testing::ElementsAre(0, 0, 1, 0, 1, 0, 1, 0));
    for (const std::uint64_t nan : {0x7FF8000000000000U, 0xFFF0000000000001U}) {
      EXPECT_TRUE(encode(*codec, what, with_value(source, 24, nan)).empty());
    }
  }
}

TEST(Sign, NanIsNotRepresentable) {
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "sign"}, engine);
    for (const std::uint16_t nan : {0x7FC0, 0xFFC1}) {
      for (const std::int64_t where : {0, 63, 64, 129}) {
        for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
          const Description what = row(130, type);
          Bytes source(source_bytes(what));
          std::memcpy(source.data() + 2 * where, &nan, 2);
          EXPECT_TRUE(encode(*codec, what, source).empty());
        }
      }
    }
  }
}

TEST(TwoValued, HoldsPatternsNotNumbers) {
  const Description what = row(5, ElementType::float32);
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "two_valued"}, engine);
    const Bytes two = make_source(what, {0.0F, -0.0F, 0.0F, -0.0F, 0.0F});
    const Bytes bytes = encode(*codec, what, two);
    ASSERT_EQ(bytes.size(), 9U);
    EXPECT_EQ(bytes[8], std::byte{0b01010});
    EXPECT_EQ(decode(*codec, what, bytes), two);
    EXPECT_TRUE(encode(*codec, what, make_source(what, {0.0F, -0.0F, 1.0F, 0.0F, 0.0F})).empty());
  }
}

TEST(TwoValued, FindsAThirdPatternAnywhere) {
  for (const ElementType type :
       {ElementType::uint8, ElementType::bfloat16, ElementType::float32, ElementType::int64}) {
    const std::int64_t n = 70001;
    const Description what = row(n, type);
    const auto codec = make_codec({.name = "two_valued"});
    for (const std::int64_t where : {std::int64_t{2}, n / 2, n - 1}) {
      Bytes source(source_bytes(what), std::byte{0});
      reference::store_bits(source.data(), 1, element_size(type), 1);
      EXPECT_FALSE(encode(*codec, what, source, {}, two_threads).empty());
      reference::store_bits(source.data(), where, element_size(type), 2);
      EXPECT_TRUE(encode(*codec, what, source, {}, two_threads).empty());
    }
  }
}

TEST(Raw, CopiesOnlyWhatTheLayoutReaches) {
  Description what{
      .type = ElementType::other, .layout = contiguous(3, {1, 2, 5}), .index_extent = {1, 1, 1}};
  what.layout.outer_stride += 4;
  Bytes source(source_bytes(what));
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i);
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "raw"}, engine);
    const Bytes bytes = encode(*codec, what, source);
    ASSERT_EQ(bytes.size(), 30U);
    EXPECT_EQ(bytes[10], std::byte{14});
    const Bytes target = decode(*codec, what, bytes);
    EXPECT_EQ(target[10], std::byte{0xA5});
    EXPECT_EQ(target[14], std::byte{14});
  }
}

}  // namespace
}  // namespace cinch::codecs::test
