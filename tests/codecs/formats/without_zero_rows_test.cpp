// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/without_zero_rows.h"

#include <algorithm>
#include <limits>

#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

constexpr RandomKey kKey = {1, 2, 3};

CodecSpec spec(bool subtractive = false) {
  return {.name = "group_quant",
          .bits = 4,
          .group = 256,
          .subtractive_dither = subtractive,
          .without_zero_rows = true};
}

CodecSpec alone(CodecSpec of) {
  of.without_zero_rows = false;
  return of;
}

/// Values of which about half of the rows are zeros.
Bytes with_zero_rows(Random& random, const Description& what) {
  std::vector<float> x = random_values(random, what.layout, false);
  for (std::size_t row = 0; row < x.size(); row += kZeroRow) {
    if (draw(random, 0, 1) != 0)
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(row), kZeroRow, 0.0F);
  }
  return make_source(what, x);
}

TEST(WithoutZeroRows, EnginesWriteTheSameBytes) {
  for_each_target([](const std::string& target) {
    Random random(5);
    for (int round = 0; round < rounds(60) && !testing::Test::HasFailure(); ++round) {
      const ElementType type = kFloats[round % 3];
      const Description what = flat(kZeroRow * draw(random, 1, 40), type);
      SCOPED_TRACE(target + " " + describe(what, spec()));
      expect_same_engines(spec(round % 2 == 0), what, with_zero_rows(random, what), kKey);
    }
  });
}

TEST(WithoutZeroRows, RunsAreWhatTheInnerCodecMakesOfThem) {
  const Description what = flat(6 * kZeroRow, ElementType::float32);
  Random random(6);
  std::vector<float> x = random_values(random, what.layout, false);
  std::fill_n(x.begin(), kZeroRow, 0.0F);
  std::fill_n(x.begin() + 3 * kZeroRow, kZeroRow, 0.0F);
  const Bytes source = make_source(what, x);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec(), engine);
    const auto inner = make_codec(alone(spec()), engine);
    const Encoding all = encode_any(*codec, what, source, kKey);
    EXPECT_EQ(load<std::uint64_t>(all.bytes, 0), 0b110110U);
    EXPECT_EQ(load<std::uint64_t>(all.bytes, 8), 0U);
    const Description run = flat(2 * kZeroRow, ElementType::float32);
    const std::size_t size =
        inner->encoded_bytes({.layout = PlaneLayout::rows(2 * kZeroRow, kZeroRow)});
    ASSERT_EQ(size % kWithoutZeroRowsAlignment, 0U);
    ASSERT_EQ(all.bytes.size(), 16 + 2 * size);
    for (std::size_t r = 0; r < 2; ++r) {
      Description rows = run;
      rows.layout = PlaneLayout::rows(2 * kZeroRow, kZeroRow);
      const auto first =
          source.begin() + static_cast<std::ptrdiff_t>((r == 0 ? 1 : 4) * kZeroRow * 4);
      const Bytes part(first, first + 2 * kZeroRow * 4);
      const RandomKey key = {kKey.seed, kKey.entry, kKey.step + (r << 48)};
      const Encoding alone = encode_any(*inner, rows, part, key);
      EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(),
                             all.bytes.begin() + static_cast<std::ptrdiff_t>(16 + r * size)));
    }
    const Bytes decoded = decode(*codec, what, all.bytes);
    for (const std::size_t row : {0U, 3U}) {
      EXPECT_TRUE(std::all_of(decoded.begin() + row * kZeroRow * 4,
                              decoded.begin() + (row + 1) * kZeroRow * 4,
                              [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST(WithoutZeroRows, OnlyZerosTakeTheMask) {
  const Description what = flat(100 * kZeroRow, ElementType::bfloat16);
  const Bytes source(source_bytes(what));
  const auto codec = make_codec(spec());
  const Bytes bytes = encode(*codec, what, source);
  EXPECT_EQ(bytes.size(), 16U);
  EXPECT_EQ(decode(*codec, what, bytes), source);
}

TEST(WithoutZeroRows, MinusZeroAndWhatIsNotFiniteAreHeld) {
  const Description what = flat(2 * kZeroRow, ElementType::float32);
  std::vector<float> x(2 * kZeroRow, 0.0F);
  x[5] = -0.0F;
  const auto codec = make_codec(spec());
  EXPECT_GT(encode(*codec, what, make_source(what, x)).size(), 16U);
  x[kZeroRow] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(encode_any(*codec, what, make_source(what, x), kKey).representable);
}

TEST(WithoutZeroRows, TakesWholeRowsOfContiguousFloats) {
  const auto codec = make_codec(spec());
  EXPECT_TRUE(codec->accepts(flat(kZeroRow, ElementType::float32)));
  EXPECT_FALSE(codec->accepts(flat(kZeroRow + 8, ElementType::float32)));
  EXPECT_FALSE(codec->accepts({.layout = {.outer = 0, .extent = {1, 1, kZeroRow}}}));
  EXPECT_FALSE(codec->accepts(flat(kZeroRow, ElementType::int32)));
  EXPECT_FALSE(codec->accepts({.layout = channels_last(1, 64, {1, 4, 4})}));
}

TEST(WithoutZeroRows, DamageStaysInBounds) {
  Random random(9);
  const Description what = flat(20 * kZeroRow, ElementType::float32);
  const auto codec = make_codec(spec(true));
  const Bytes good = encode(*codec, what, with_zero_rows(random, what));
  Bytes target(source_bytes(what));
  for (std::size_t size = 0; size < good.size(); size += 7) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(codec->decode(what, cut, target.data(), Reads::values, serial_for)) << size;
  }
  for (int round = 0; round < 200; ++round) {
    Bytes bad = good;
    bad[static_cast<std::size_t>(draw(random, 0, std::ssize(bad) - 1))] ^= std::byte{0x5A};
    codec->decode(what, bad, target.data(), Reads::values, serial_for);
  }
  EXPECT_FALSE(codec->decode(what, good, target.data(), Reads::sign, serial_for));
}

}  // namespace
}  // namespace cinch::codecs::test
