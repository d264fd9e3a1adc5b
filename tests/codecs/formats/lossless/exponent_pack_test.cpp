// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/exponent_pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kEngines = {Engine::reference, Engine::cpu};
constexpr std::array kPackTypes = {ElementType::float32, ElementType::bfloat16,
                                   ElementType::float16, ElementType::float64};
const CodecSpec kSpec = {.name = "exponent_pack"};

std::vector<int> numbers(const Bytes& bytes, std::size_t from, std::size_t count) {
  std::vector<int> found;
  for (std::size_t i = from; i < from + count; ++i) found.push_back(int(bytes.at(i)));
  return found;
}

TEST(ExponentPack, CodesAreJoinedAndParted) {
  Random random(5);
  for (int bits = 0; bits <= kPackMaxBits; ++bits) {
    for (int round = 0; round < 50; ++round) {
      std::uint64_t codes = 0;
      std::uint64_t joined = 0;
      for (int i = 0; i < 8; ++i) {
        const std::uint64_t code = random() & ((1U << bits) - 1U);
        codes |= code << (8 * i);
        joined |= code << (bits * i);
      }
      ASSERT_EQ(join_codes(codes, bits), joined) << bits;
      ASSERT_EQ(part_codes(joined, bits), codes) << bits;
    }
  }
}

TEST(ExponentPack, SignsAreLoweredBelowTheTop) {
  EXPECT_EQ(lower_sign(std::uint16_t{0x8000}), 0x0080);
  EXPECT_EQ(lower_sign(std::uint16_t{0x7F80}), 0xFF00);
  EXPECT_EQ(lower_sign(std::uint16_t{0x007F}), 0x007F);
  EXPECT_EQ(lower_sign(std::uint32_t{0xBF800001}), 0x7F800001U);
  EXPECT_EQ(lower_sign(std::uint64_t{0xBFF0000000000001}), 0x7FF0000000000001U);
  EXPECT_EQ(raise_sign(lower_sign(std::uint32_t{0xC2345678})), 0xC2345678U);
}

TEST(ExponentPack, OneOfEightStretchesIsSampled) {
  std::array<int, 8> columns = {};
  for (int row = 0; row < 16; ++row) {
    int sampled = 0;
    for (int column = 0; column < 8; ++column) {
      if (!is_sampled(8 * row + column)) continue;
      ++sampled;
      ++columns[column];
    }
    EXPECT_EQ(sampled, 1);
  }
  EXPECT_THAT(columns, testing::Each(2));
}

TEST(ExponentPack, AsksForJustTheBytesThatItTakes) {
  const Description what = flat(3 * kPackElements + 77, ElementType::float32);
  Random random(6);
  const Bytes source = make_source(what, random_values(random, what.layout, true));
  const auto codec = make_codec(kSpec, Engine::cpu);
  Bytes bytes;
  const auto give = [&](std::size_t size) {
    bytes.resize(size);
    return bytes.data();
  };
  const Encoded encoded = codec->encode_into(what, source.data(), Room(give), {}, two_threads);
  EXPECT_EQ(encoded.bytes, bytes.size());
  EXPECT_EQ(bytes, encode(*make_codec(kSpec, Engine::reference), what, source));
}

TEST(ExponentPack, HoldsTopsAsCodes) {
  // The sample is the first stretch: exponents 126 to 128, so that 3 codes of 2 bits hold all.
  constexpr std::array kValues = {1.5F, -1.0F, 0.5F, -2.0F};
  std::vector<float> x(40);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = kValues[k % 4];
  x[33] = 0x1.000002p10F;  // exponent 137, the lowest bit of the mantissa
  x[39] = -0.75F;
  const Description what = flat(40, ElementType::float32);
  for (const Engine engine : kEngines) {
    const Bytes bytes = encode(*make_codec(kSpec, engine), what, make_source(what, x));
    ASSERT_EQ(bytes.size(), 24U + 8U + 8U + 136U);
    EXPECT_EQ(load<std::uint64_t>(bytes, 0), 1U | int(ElementType::float32) << 8);
    EXPECT_EQ(load<std::uint64_t>(bytes, 8), 40U);
    EXPECT_EQ(load<std::uint64_t>(bytes, 16), bytes.size());
    EXPECT_EQ(load<std::uint64_t>(bytes, 24), 0U);
    EXPECT_EQ(load<std::uint16_t>(bytes, 32), 40U);
    EXPECT_THAT(numbers(bytes, 34, 6),
                testing::ElementsAre(1, 0, 126, 2, int(PackForm::packed), 0));
    // The lower 16 bits of the mantissa, then the upper 7 with the sign above them.
    EXPECT_EQ(load<std::uint16_t>(bytes, 40), 0U);
    EXPECT_EQ(load<std::uint16_t>(bytes, 40 + 2 * 33), 1U);
    EXPECT_EQ(load<std::uint16_t>(bytes, 40 + 2 * 39), 0U);
    EXPECT_THAT(numbers(bytes, 120, 4), testing::ElementsAre(0x40, 0x80, 0, 0x80));
    EXPECT_THAT(numbers(bytes, 120 + 33, 1), testing::ElementsAre(0));
    EXPECT_THAT(numbers(bytes, 120 + 39, 1), testing::ElementsAre(0xC0));
    // 127, 127, 126, 128 again and again; 137 is an escape.
    EXPECT_THAT(numbers(bytes, 160, 8), testing::Each(0x85));
    EXPECT_THAT(numbers(bytes, 168, 2), testing::ElementsAre(0x8D, 0x05));
    EXPECT_THAT(numbers(bytes, 170, 6), testing::ElementsAre(137, 0, 0, 0, 0, 0));
  }
}

TEST(ExponentPack, LeavesZerosOut) {
  const std::int64_t n = 4096 + 70;
  const Description what = flat(n, ElementType::bfloat16);
  Bytes source = normal_floats(what, true);
  reference::store_bits(source.data(), 4096 + 69, 2, 0x8000);  // -0 is no zero
  std::vector<std::uint16_t> held;
  for (std::int64_t k = 4096; k < n; ++k) {
    const auto x = static_cast<std::uint16_t>(reference::load_bits(source.data(), k, 2));
    if (x != 0) held.push_back(x);
  }
  for (const Engine engine : kEngines) {
    const Bytes bytes = encode(*make_codec(kSpec, engine), what, source);
    const std::size_t payload = 24 + 16 + 16;
    const std::size_t begin = payload + load<std::uint64_t>(bytes, 24 + 8);
    const auto block = load<PackBlock>(bytes, 24 + 16 + 8);
    EXPECT_EQ(block.form, PackForm::nonzeros);
    EXPECT_EQ(block.held, held.size());
    const int bits = block.bits;
    const unsigned escape = pack_window(bits);
    for (std::int64_t k = 0; k < 128; ++k) {
      const bool is_held = k < 70 && reference::load_bits(source.data(), 4096 + k, 2) != 0;
      ASSERT_EQ(reference::get_bits(std::span(bytes).subspan(begin), k, 1), is_held ? 1U : 0U);
    }
    const std::size_t codes = begin + 16 + held.size();
    const std::size_t escapes = codes + (held.size() * bits + 7) / 8;
    ASSERT_GE(block.escapes, 1);
    for (std::size_t k = 0; k < held.size(); ++k) {
      const std::uint16_t x = lower_sign(held[k]);
      ASSERT_EQ(bytes[begin + 16 + k], static_cast<std::byte>(x));
      const unsigned code = reference::get_bits(std::span(bytes).subspan(codes), bits * k, bits);
      if (code != escape) {
        ASSERT_EQ(block.base + code, x >> 8U);
      }
    }
    EXPECT_EQ(bytes[escapes + block.escapes - 1U], std::byte{0});  // -0's exponent
    EXPECT_EQ(bytes.size(), (escapes + block.escapes + 7) / 8 * 8);
  }
}

/// A halved block has the bytes of a block of its upper halves.
TEST(ExponentPack, HoldsUpperHalvesWhereTheLowerOnesAreZero) {
  const std::int64_t n = 2 * kPackElements + 77;
  for (const bool relu : {false, true}) {
    const Description narrow = flat(n, ElementType::bfloat16);
    const Description wide = flat(n, ElementType::float32);
    const Bytes halves = normal_floats(narrow, relu);
    Bytes source(source_bytes(wide));
    for (std::int64_t k = 0; k < n; ++k) std::memcpy(&source[4 * k + 2], &halves[2 * k], 2);
    for (const Engine engine : kEngines) {
      const auto codec = make_codec(kSpec, engine);
      const Bytes bytes = encode(*codec, wide, source);
      Bytes expected = encode(*codec, narrow, halves);
      expected[1] = static_cast<std::byte>(ElementType::float32);
      for (std::size_t block = 0; block < 3; ++block)
        expected[24 + 3 * 8 + 8 * block + 7] = std::byte{1};
      EXPECT_EQ(bytes, expected);
      EXPECT_EQ(decode(*codec, wide, bytes), source);

      Bytes other = source;
      other[4 * kPackElements + 1] = std::byte{1};  // in the second block
      const Bytes with_other = encode(*codec, wide, other);
      EXPECT_EQ(load<PackBlock>(with_other, 48).halved, 1);
      EXPECT_EQ(load<PackBlock>(with_other, 56).halved, 0);
      EXPECT_EQ(decode(*codec, wide, with_other), other);
    }
  }
}

TEST(ExponentPack, HoldsNoiseAsItIs) {
  for (const ElementType type : kPackTypes) {
    const Description what = flat(2 * kPackElements + 5, type);
    const Bytes source = noise(what);
    for (const Engine engine : kEngines) {
      const auto codec = make_codec(kSpec, engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_EQ(bytes.size(), codec->encoded_bytes(what));
      EXPECT_EQ(bytes.size(), 24 + 3 * 16 + (source.size() + 7) / 8 * 8);
      EXPECT_EQ(decode(*codec, what, bytes), source);
    }
  }
}

TEST(ExponentPack, RestoresEveryPattern) {
  expect_every_pattern(kSpec);
}

TEST(ExponentPack, RestoresSpecialValuesAmongOrdinaryOnes) {
  constexpr std::array<std::uint64_t, 8> kSpecial = {
      0,
      0x8000000000000000U,   // -0
      0x7FF0000000000000U,   // infinity
      0xFFF0000000000000U,   // -infinity
      0x7FF0000000000001U,   // a signalling NaN
      0xFFF8123456789ABCU,   // a NaN with a payload
      0x0000000000000001U,   // the least denormal
      0x800FFFFFFFFFFFFFU};  // the largest one, negative
  const std::int64_t n = 3 * kPackElements + 1;
  for (const bool relu : {false, true}) {
    const Description wide = flat(n, ElementType::float64);
    Bytes doubles(source_bytes(wide));
    Random random(8);
    std::normal_distribution<double> distribution;
    for (std::int64_t k = 0; k < n; ++k) {
      const double x = distribution(random);
      reference::store_bits(doubles.data(), k, 8,
                            k % 97 == 0     ? kSpecial[k / 97 % 8]
                            : relu && x < 0 ? 0
                                            : std::bit_cast<std::uint64_t>(x));
    }
    // The upper half is what float32 has of them: 8 bits of the exponent where a float64 has 11.
    const Description what = flat(n, ElementType::float32);
    Bytes floats(source_bytes(what));
    for (std::int64_t k = 0; k < n; ++k) {
      const std::uint64_t bits = reference::load_bits(doubles.data(), k, 8);
      const std::uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFFU;
      const bool is_special = k % 97 == 0;
      const std::uint64_t narrow =
          is_special
              ? std::min<std::uint64_t>(magnitude >> 29 | (magnitude & 1U), 0x7FFFFFFFU)
              : std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(magnitude)));
      reference::store_bits(floats.data(), k, 4, narrow | bits >> 63 << 31);
    }
    for (const Engine engine : kEngines) {
      const auto codec = make_codec(kSpec, engine);
      for (const auto& [description, source] : {std::pair(wide, doubles), {what, floats}}) {
        const Bytes bytes = encode(*codec, description, source);
        EXPECT_LT(bytes.size(), source.size());
        EXPECT_EQ(decode(*codec, description, bytes), source);
      }
    }
  }
}

/// What the format is for.
TEST(ExponentPack, Ratios) {
  struct Row {
    ElementType type;
    bool relu;
    double ratio;
  };
  for (const Row& r :
       {Row{ElementType::float32, false, 1.17}, Row{ElementType::bfloat16, false, 1.42},
        Row{ElementType::float16, false, 1.10}, Row{ElementType::float64, false, 1.10},
        Row{ElementType::float32, true, 2.17}, Row{ElementType::bfloat16, true, 2.4},
        Row{ElementType::float16, true, 1.96}}) {
    const Description what = flat(24 * kPackElements, r.type);
    Bytes source = normal_floats(
        r.type == ElementType::float64 ? flat(24 * kPackElements, ElementType::float32) : what,
        r.relu);
    if (r.type == ElementType::float64) {
      Bytes wide(source_bytes(what));
      for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
        reference::store_bits(wide.data(), k, 8,
                              std::bit_cast<std::uint64_t>(double{load<float>(source, 4 * k)}));
      }
      source = wide;
    }
    EXPECT_GT(ratio_of(kSpec, what, source), r.ratio)
        << type_name(r.type) << (r.relu ? " relu" : "");
  }
  const Description what = flat(24 * kPackElements, ElementType::float32);
  EXPECT_EQ(encode(*make_codec(kSpec), what, Bytes(source_bytes(what))).size(),
            24U + 24 * (16 + 512));  // a mask for each block
}

TEST(ExponentPack, DamageIsSeen) {
  const std::int64_t n = 4096 + 301;
  const Description what = flat(n, ElementType::bfloat16);
  const Bytes source = normal_floats(what, true);
  for (const Engine engine : kEngines) {
    const auto codec = make_codec(kSpec, engine);
    const Bytes good = encode(*codec, what, source);
    ASSERT_EQ(decode(*codec, what, good), source);
    EXPECT_TRUE(decode(*codec, flat(n, ElementType::float16), good).empty());
    EXPECT_TRUE(decode(*codec, flat(n - 1, ElementType::bfloat16), good).empty());
    const auto refused = [&](std::size_t at, auto value) {
      return decode(*codec, what, with_value(good, at, value)).empty();
    };
    constexpr std::size_t kOffset = 24 + 8;
    constexpr std::size_t kBlock = 24 + 16 + 8;
    const auto block = load<PackBlock>(good, kBlock);
    EXPECT_TRUE(refused(0, std::uint8_t{2}));                   // version
    EXPECT_TRUE(refused(2, std::uint8_t{1}));                   // reserved
    EXPECT_TRUE(refused(16, std::uint64_t{good.size() + 8}));   // size
    EXPECT_TRUE(refused(16, std::uint64_t{24 + 32 - 1}));       // size
    EXPECT_TRUE(refused(kOffset, std::uint64_t{good.size()}));  // beyond the end
    EXPECT_TRUE(refused(kOffset, ~std::uint64_t{7}));           // beyond the end
    EXPECT_TRUE(refused(kOffset, load<std::uint64_t>(good, kOffset) + 4));
    EXPECT_TRUE(refused(kBlock, std::uint16_t(block.held + 1)));
    EXPECT_TRUE(refused(kBlock, std::uint16_t{302}));
    EXPECT_TRUE(refused(kBlock + 2, std::uint16_t(block.escapes + 1)));
    EXPECT_TRUE(refused(kBlock + 2, std::uint16_t{0}));
    EXPECT_TRUE(refused(kBlock + 5, std::uint8_t{8}));  // bits
    EXPECT_TRUE(refused(kBlock + 6, std::uint8_t{3}));  // form
    EXPECT_TRUE(refused(kBlock + 6, std::uint8_t(PackForm::packed)));
    EXPECT_TRUE(refused(kBlock + 7, std::uint8_t{1}));  // halved: too few bytes an element
    const std::size_t mask = 24 + 32 + load<std::uint64_t>(good, kOffset);
    EXPECT_TRUE(refused(mask, std::uint8_t(load<std::uint8_t>(good, mask) ^ 4U)));
  }
}

TEST(ExponentPack, TakesNoOthersAndNothing) {
  const auto codec = make_codec(kSpec);
  EXPECT_FALSE(codec->accepts(flat(64, ElementType::int32)));
  EXPECT_FALSE(codec->accepts(flat(64, ElementType::other)));
  for (const ElementType type : kPackTypes) {
    const Description what{.type = type, .layout = contiguous(0, {1, 3, 4})};
    for (const Engine engine : kEngines) {
      const Bytes bytes = encode(*make_codec(kSpec, engine), what, {});
      EXPECT_EQ(bytes.size(), 24U);
      EXPECT_TRUE(
          make_codec(kSpec, engine)->decode(what, bytes, nullptr, Reads::values, serial_for));
    }
  }
}

TEST(ExponentPack, EnginesWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(12);
    for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
      Description what{.type = kPackTypes[round % 4], .layout = random_layout(random)};
      if (round % 5 == 0) what.layout = channels_last(2, draw(random, 1, 40), {2, 31, 17});
      if (round % 5 == 1) {
        const std::int64_t n = kPackElements * draw(random, 1, 18) + draw(random, -9, 9);
        what.layout = PlaneLayout::rows(n, n);
      }
      SCOPED_TRACE(target + " " + describe(what, kSpec));
      expect_same_engines(kSpec, what, mixed_floats(random, what, 2500), {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
