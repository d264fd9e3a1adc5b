// SPDX-License-Identifier: Apache-2.0
// Kernels that codecs share, with arguments that no tensor of a test's size would lead to.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/codecs/kernels_test.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/philox-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

void test_draws(RandomKey key, std::uint64_t first, std::int64_t blocks, std::uint16_t* draws) {
  fill_draws(key, first, blocks, draws);
}

void test_pack(int bits, const std::uint8_t* codes, std::int64_t groups, std::byte* out) {
  pack_codes(bits, codes, groups, out);
}

const std::uint8_t* test_unpack(int bits, const std::byte* in, std::int64_t size,
                                std::int64_t begin, std::int64_t count, std::uint8_t* buffer) {
  return unpack_codes(bits, in, size, begin, count, buffer);
}

std::int64_t vector_bytes() {
  return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/philox.h"
#include "tests/codecs/support.h"

namespace cinch::codecs {
HWY_EXPORT(test_draws);
HWY_EXPORT(test_pack);
HWY_EXPORT(test_unpack);
HWY_EXPORT(vector_bytes);
}  // namespace cinch::codecs

namespace cinch::codecs::test {
namespace {

TEST(Kernels, DrawsAreThoseOfTheirElements) {
  for_each_target([](const std::string& target) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 300; ++round) {
      const RandomKey key{static_cast<std::uint32_t>(random()),
                          static_cast<std::uint32_t>(random()), random()};
      // Also where the lower half of the index wraps around, or soon will.
      std::uint64_t first = random() >> (round % 40);
      if (round % 3 == 0) first = (random() % 1000 << 32) - random() % 70;
      const auto blocks = static_cast<std::int64_t>(1 + random() % 60);
      const std::int64_t room = 8 * blocks + 4 * HWY_DYNAMIC_DISPATCH(vector_bytes)();
      std::vector<std::uint16_t> draws(room);
      HWY_DYNAMIC_DISPATCH(test_draws)(key, first, blocks, draws.data());
      for (std::int64_t i = 0; i < 8 * blocks; ++i) {
        const philox::Block block =
            philox::draw_block(key, first + static_cast<std::uint64_t>(i / 8));
        ASSERT_EQ(draws[i], block.word[i % 8 / 2] >> (i % 2 * 16) & 0xFFFFU)
            << target << " first " << first << " at " << i;
      }
    }
  });
}

TEST(Kernels, CodesArePackedAndUnpackedAnywhere) {
  for_each_target([](const std::string& target) {
    std::mt19937 random(6);
    const std::int64_t vector = HWY_DYNAMIC_DISPATCH(vector_bytes)();
    for (int bits = 1; bits <= 8; ++bits) {
      for (int round = 0; round < 60; ++round) {
        const std::int64_t groups = random() % 60;
        std::vector<std::uint8_t> codes(8 * groups + vector);
        for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % (1U << bits));
        // Exactly as large as it must be, so that a byte too many is seen.
        Bytes packed(groups * bits), expected(groups * bits);
        for (std::int64_t k = 0; k < 8 * groups; ++k) {
          reference::put_bits(expected, k * bits, bits, codes[k]);
        }
        HWY_DYNAMIC_DISPATCH(test_pack)(bits, codes.data(), groups, packed.data());
        ASSERT_EQ(packed, expected) << target << " bits " << bits << " groups " << groups;
        if (groups == 0) continue;

        const std::int64_t begin = random() % (8 * groups);
        const std::int64_t count = 1 + random() % (8 * groups - begin);
        std::vector<std::uint8_t> buffer(count + 8 + vector);
        const std::uint8_t* const got = HWY_DYNAMIC_DISPATCH(test_unpack)(
            bits, packed.data(), static_cast<std::int64_t>(packed.size()), begin, count,
            buffer.data());
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[i], codes[begin + i]) << target << " bits " << bits << " at " << begin + i;
        }
      }
    }
  });
}

}  // namespace
}  // namespace cinch::codecs::test

#endif  // HWY_ONCE
