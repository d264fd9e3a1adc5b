// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split.h"

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/float_split_zstd.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kEngines = {Engine::reference, Engine::cpu};
constexpr std::array kSplitTypes = {ElementType::float32, ElementType::bfloat16,
                                    ElementType::float16, ElementType::float64};
const CodecSpec kSpec = {.name = "float_split"};

/// The sections of the chunk at `at`, decompressed to the lengths given.
std::vector<Bytes> sections_of(const Bytes& bytes, std::size_t at,
                               const std::vector<std::size_t>& lengths) {
  std::vector<Bytes> sections;
  std::size_t next = at + kSplitChunkHeaderBytes + 4 * lengths.size();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto word = load<std::uint32_t>(bytes, at + kSplitChunkHeaderBytes + 4 * i);
    const std::span<const std::byte> held =
        std::span(bytes).subspan(next, word & ~kSplitCompressed);
    next += held.size();
    Bytes section(held.begin(), held.end());
    if ((word & kSplitCompressed) != 0) {
      section.resize(lengths[i]);
      EXPECT_TRUE(zstd_decompress(held, section));
    }
    EXPECT_EQ(section.size(), lengths[i]);
    sections.push_back(section);
  }
  EXPECT_EQ(next, bytes.size());
  return sections;
}

TEST(FloatSplit, HoldsPlanesOfRotatedElements) {
  const std::int64_t n = 3000;
  const Description what = flat(n, ElementType::float32);
  const Bytes source = normal_floats(what, false);
  for (const Engine engine : kEngines) {
    const Bytes bytes = encode(*make_codec(kSpec, engine), what, source);
    ASSERT_GT(bytes.size(), 20U);
    EXPECT_EQ(bytes[0], std::byte{1});
    EXPECT_EQ(load<std::uint64_t>(bytes, 8), bytes.size() - 16);
    EXPECT_EQ(load<std::uint32_t>(bytes, 16), std::uint32_t(SplitForm::planes));
    EXPECT_NE(load<std::uint32_t>(bytes, 20) & kSplitCompressed, 0U);  // exponents
    EXPECT_EQ(load<std::uint32_t>(bytes, 24), n);                      // mantissas
    const auto planes = sections_of(bytes, 16, std::vector<std::size_t>(4, n));
    for (std::int64_t k = 0; k < n; ++k) {
      const std::uint32_t x =
          std::rotl(static_cast<std::uint32_t>(reference::load_bits(source.data(), k, 4)), 1);
      for (int j = 0; j < 4; ++j) {
        ASSERT_EQ(planes[j][k], static_cast<std::byte>(x >> (24 - 8 * j))) << k << ' ' << j;
      }
    }
  }
}

TEST(FloatSplit, LeavesZerosOut) {
  const std::int64_t n = 3001;
  const Description what = flat(n, ElementType::bfloat16);
  Bytes source = normal_floats(what, true);
  reference::store_bits(source.data(), 0, 2, 0x8000);  // -0 is no zero
  std::vector<std::uint16_t> nonzeros;
  for (std::int64_t k = 0; k < n; ++k) {
    const auto x = static_cast<std::uint16_t>(reference::load_bits(source.data(), k, 2));
    if (x != 0) nonzeros.push_back(x);
  }
  for (const Engine engine : kEngines) {
    const Bytes bytes = encode(*make_codec(kSpec, engine), what, source);
    EXPECT_EQ(load<std::uint32_t>(bytes, 16), std::uint32_t(SplitForm::nonzero_planes));
    const auto sections = sections_of(bytes, 16, {(n + 7) / 8, nonzeros.size(), nonzeros.size()});
    for (std::int64_t k = 0; k < n; ++k) {
      ASSERT_EQ(reference::get_bits(sections[0], k, 1),
                reference::load_bits(source.data(), k, 2) != 0 ? 1U : 0U);
    }
    EXPECT_EQ(sections[0].back() & std::byte{0xFE}, std::byte{0});
    for (std::size_t k = 0; k < nonzeros.size(); ++k) {
      const std::uint16_t x = std::rotl(nonzeros[k], 1);
      ASSERT_EQ(sections[1][k], static_cast<std::byte>(x >> 8));
      ASSERT_EQ(sections[2][k], static_cast<std::byte>(x));
    }
  }
}

TEST(FloatSplit, HoldsNoiseAsItIs) {
  for (const ElementType type : kSplitTypes) {
    const Description what = flat(2 * kSplitChunk + 5, type);
    const Bytes source = noise(what);
    for (const Engine engine : kEngines) {
      const auto codec = make_codec(kSpec, engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_EQ(bytes.size(), codec->encoded_bytes(what));
      EXPECT_EQ(bytes.size(), 8 + 3 * 8 + 3 * 4 + source.size());
      EXPECT_EQ(load<std::uint32_t>(bytes, 32), std::uint32_t(SplitForm::whole));
      EXPECT_EQ(decode(*codec, what, bytes), source);
    }
  }
}

TEST(FloatSplit, RestoresEveryPattern) {
  expect_every_pattern(kSpec);
}

/// What the format is for. The zstd library decides the last digit.
TEST(FloatSplit, Ratios) {
  struct Row {
    ElementType type;
    bool relu;
    double ratio;
  };
  for (const Row& r :
       {Row{ElementType::float32, false, 1.19}, Row{ElementType::bfloat16, false, 1.45},
        Row{ElementType::float16, false, 1.13}, Row{ElementType::float32, true, 2.2},
        Row{ElementType::bfloat16, true, 2.45}, Row{ElementType::float16, true, 2.0}}) {
    const Description what = flat(3 * kSplitChunk, r.type);
    const Bytes source = normal_floats(what, r.relu);
    EXPECT_GT(ratio_of(kSpec, what, source), r.ratio)
        << type_name(r.type) << (r.relu ? " relu" : "");
  }
  const Description what = flat(3 * kSplitChunk, ElementType::float32);
  EXPECT_LT(encode(*make_codec(kSpec), what, Bytes(source_bytes(what))).size(), 300U);
}

TEST(FloatSplit, DamageIsSeen) {
  const std::int64_t n = 3001;
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
    EXPECT_TRUE(refused(0, std::uint8_t{2}));                                    // version
    EXPECT_TRUE(refused(8, std::uint64_t{good.size()}));                         // end
    EXPECT_TRUE(refused(8, ~std::uint64_t{0}));                                  // end
    EXPECT_TRUE(refused(8, std::uint64_t{3}));                                   // end
    EXPECT_TRUE(refused(16, std::uint8_t{3}));                                   // form
    EXPECT_TRUE(refused(16, std::uint8_t(SplitForm::whole)));                    // form
    EXPECT_TRUE(refused(16, std::uint8_t(SplitForm::planes)));                   // form
    EXPECT_TRUE(refused(20, load<std::uint32_t>(good, 20) ^ kSplitCompressed));  // mask
    EXPECT_TRUE(refused(24, load<std::uint32_t>(good, 24) - 1));                 // length
    EXPECT_TRUE(refused(28, std::uint32_t{0x7FFFFFFF}));                         // length
    // The mask of half zeros is not worth compressing: one zero less, one element too few.
    ASSERT_EQ(load<std::uint32_t>(good, 20), 376U);
    EXPECT_TRUE(refused(32, ~std::to_integer<unsigned>(good[32])));
    EXPECT_TRUE(refused(32 + 375, std::uint8_t{0xFF}));
  }
}

TEST(FloatSplit, EmptyAndSingleElements) {
  for (const Engine engine : kEngines) {
    const auto codec = make_codec(kSpec, engine);
    for (const ElementType type : kSplitTypes) {
      Description what = flat(1, type);
      for (const std::byte fill : {std::byte{0}, std::byte{0xFF}}) {
        const Bytes source(source_bytes(what), fill);
        const Bytes bytes = encode(*codec, what, source);
        EXPECT_EQ(bytes.size(), 20 + element_size(type));
        EXPECT_EQ(decode(*codec, what, bytes), source);
      }
      what.layout.outer = 0;
      Bytes out(codec->encoded_bytes(what));
      EXPECT_EQ(codec->encode(what, nullptr, out, {}, serial_for).bytes, 8U);
      EXPECT_TRUE(codec->decode(what, out, nullptr, Reads::values, serial_for));
    }
  }
}

PlaneLayout split_layout(Random& random) {
  switch (draw(random, 0, 5)) {
    case 0:  // planes larger than a chunk, and chunks that end within rows
      return channels_last(1, 2, {1, 211, 317});
    case 1:
      return channels_last(3, draw(random, 1, 40), {2, draw(random, 1, 31), draw(random, 1, 40)});
    case 2: {
      PlaneLayout padded = contiguous(2, {3, 101, 207});
      padded.stride = {101 * 210, 210, 1};
      padded.outer_stride = 3 * padded.stride[0] + 5;
      return padded;
    }
    case 3:
      return PlaneLayout::rows(2 * kSplitChunk, kSplitChunk);
    case 4: {
      const std::int64_t n = kSplitChunk * draw(random, 1, 2) + draw(random, -9, 9);
      return PlaneLayout::rows(n, n);
    }
    default:
      return random_layout(random);
  }
}

TEST(FloatSplit, EnginesWriteTheReferencesBytes) {
  for_each_target([](const std::string& target) {
    Random random(12);
    for (int round = 0; round < 12 && !testing::Test::HasFailure(); ++round) {
      const Description what{.type = kSplitTypes[round % 4], .layout = split_layout(random)};
      const Bytes source = mixed_floats(random, what, 40000);
      SCOPED_TRACE(target + " " + describe(what, kSpec));
      expect_same_engines(kSpec, what, source, {});
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test
