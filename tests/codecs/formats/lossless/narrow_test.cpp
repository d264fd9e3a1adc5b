// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/narrow.h"

#include <array>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kEngines = {Engine::reference, Engine::cpu};

Bytes integers(const Description& what, const std::vector<std::int64_t>& values) {
  Bytes source(source_bytes(what));
  for (std::size_t k = 0; k < values.size(); ++k) {
    reference::store_bits(source.data(), static_cast<std::int64_t>(k), element_size(what.type),
                          static_cast<std::uint64_t>(values[k]));
  }
  return source;
}

TEST(Narrow, HoldsDistancesFromTheSmallest) {
  const Description what = flat(5, ElementType::int64);
  const Bytes source = integers(what, {-2, 3, 0, 5, -1});  // distances 0, 5, 2, 7, 1 in 3 bits
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "narrow"}, engine);
    const Bytes bytes = encode(*codec, what, source);
    const std::array<unsigned char, 18> expected = {1,
                                                    static_cast<unsigned char>(ElementType::int64),
                                                    3,
                                                    0,
                                                    0,
                                                    0,
                                                    0,
                                                    0,
                                                    0xFE,
                                                    0xFF,
                                                    0xFF,
                                                    0xFF,
                                                    0xFF,
                                                    0xFF,
                                                    0xFF,
                                                    0xFF,
                                                    0b10'101'000,
                                                    0b0'001'111'0};
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0);
    EXPECT_EQ(decode(*codec, what, bytes), source);
  }
}

TEST(Narrow, TakesAsManyBitsAsTheLargestDistanceNeeds) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  struct Row {
    ElementType type;
    std::int64_t min, max;
    int bits;
  };
  const std::array<Row, 12> rows = {{{ElementType::int64, 7, 7, 0},
                                     {ElementType::int64, 0, 1, 1},
                                     {ElementType::int64, 0, 999, 10},
                                     {ElementType::int64, kMin, kMin + 0xFFFFFFFF, 32},
                                     {ElementType::int64, -1, 0xFFFFFFFF, -1},
                                     {ElementType::int64, kMin, -(kMin + 1), -1},
                                     {ElementType::int32, -0x80000000LL, 0x7FFFFFFF, 32},
                                     {ElementType::int32, -3, 4, 3},
                                     {ElementType::int16, -32768, 32767, 16},
                                     {ElementType::int16, 100, 131, 5},
                                     {ElementType::uint8, 0, 255, 8},
                                     {ElementType::uint8, 200, 203, 2}}};
  for (const Row& r : rows) {
    const std::int64_t n = 3000;
    const Description what = flat(n, r.type);
    std::vector<std::int64_t> values(n, r.min);
    values[n - 1] = r.max;
    const Bytes source = integers(what, values);
    for (const Engine engine : kEngines) {
      const auto codec = make_codec({.name = "narrow"}, engine);
      const Bytes bytes = encode(*codec, what, source);
      if (r.bits < 0) {
        EXPECT_TRUE(bytes.empty()) << r.max;
        continue;
      }
      EXPECT_EQ(bytes.size(), 16U + (n * r.bits + 7) / 8) << r.max;
      EXPECT_EQ(decode(*codec, what, bytes), source) << r.max;
    }
  }
}

TEST(Narrow, DecodingChecksItsHeader) {
  const Description what = flat(100, ElementType::int16);
  std::vector<std::int64_t> values(100, -5);
  values[50] = 1000;
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "narrow"}, engine);
    const Bytes good = encode(*codec, what, integers(what, values));
    ASSERT_FALSE(decode(*codec, what, good).empty());
    EXPECT_TRUE(decode(*codec, flat(100, ElementType::int32), good).empty());
    const auto refused = [&](std::size_t at, int value) {
      return decode(*codec, what, with_value(good, at, static_cast<std::byte>(value))).empty();
    };
    EXPECT_TRUE(refused(0, 2));      // version
    EXPECT_TRUE(refused(2, 17));     // more bits than int16 has
    EXPECT_TRUE(refused(2, 16));     // more bits than there are bytes for
    EXPECT_TRUE(refused(15, 0x7F));  // no int16
    EXPECT_FALSE(refused(8, 0));
    Bytes cut = good;
    cut.pop_back();
    EXPECT_TRUE(decode(*codec, what, cut).empty());
  }
}

TEST(Narrow, EmptyTensors) {
  Description what = flat(4, ElementType::int32);
  what.layout.outer = 0;
  for (const Engine engine : kEngines) {
    const auto codec = make_codec({.name = "narrow"}, engine);
    Bytes out(codec->encoded_bytes(what));
    const Encoded encoded = codec->encode(what, nullptr, out, {}, serial_for);
    EXPECT_TRUE(encoded.representable);
    EXPECT_EQ(encoded.bytes, 16U);
    EXPECT_TRUE(codec->decode(what, out, nullptr, Reads::values, serial_for));
  }
}

}  // namespace
}  // namespace cinch::codecs::test
