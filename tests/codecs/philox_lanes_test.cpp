// SPDX-License-Identifier: Apache-2.0
// Draws made in vectors are those of codecs/philox.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/codecs/philox_lanes_test.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/cpu/vectors/philox_apart-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

void test_fill_draws(RandomKey key, std::uint64_t first, std::int64_t blocks,
                     std::uint16_t* draws) {
  fill_draws(key, first, blocks, draws);
}

/// The draws of elements [begin, end), asked for `some` at a time.
bool test_draw_stream(RandomKey key, std::int64_t begin, std::int64_t end, std::int64_t some,
                      std::uint16_t* draws) {
  cpu::Buffer buffer;
  DrawStream stream(key, end);
  if (!stream.prepare(buffer)) return false;
  for (std::int64_t k = begin; k < end; k += some) {
    const std::int64_t count = std::min(some, end - k);
    std::copy_n(stream.at(k, count), count, draws + (k - begin));
  }
  return true;
}

/// Writes word w of lane i's block to words[16 * w + i]. @return the number of lanes
std::int64_t test_blocks_apart(RandomKey key, std::uint64_t first, std::uint64_t apart,
                               std::uint32_t* words) {
  const PhiloxLanes philox(key);
  const PhiloxApart::D32 d32;
  PhiloxApart::V32 of_blocks[4];
  PhiloxApart(philox, apart).blocks(first, of_blocks);
  for (int w = 0; w < 4; ++w) hn::StoreU(of_blocks[w], d32, words + 16 * w);
  return static_cast<std::int64_t>(hn::Lanes(d32));
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <vector>

#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs {

HWY_EXPORT(test_fill_draws);
HWY_EXPORT(test_draw_stream);
HWY_EXPORT(test_blocks_apart);

namespace test {
namespace {

constexpr RandomKey kKey{.seed = 0xA4093822, .entry = 0x299F31D0, .step = 0x0370734413198A2E};

TEST(PhiloxLanes, DrawsAreTheScalarOnes) {
  for_each_target([](const std::string& target) {
    for (const std::uint64_t first :
         {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 32) - 7,
          (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32, ~std::uint64_t{0} - 100}) {
      for (const std::int64_t blocks : {1, 2, 7, 8, 33, 70}) {
        std::vector<std::uint16_t> draws((blocks + 64) * philox::kDrawsPerBlock);
        HWY_DYNAMIC_DISPATCH(test_fill_draws)(kKey, first, blocks, draws.data());
        for (std::int64_t i = 0; i < blocks * philox::kDrawsPerBlock; ++i) {
          const philox::Block block = philox::draw_block(kKey, first + i / 8);
          ASSERT_EQ(draws[i], block.word[i % 8 / 2] >> (i % 2 * 16) & 0xFFFFU)
              << target << " " << first << " " << blocks << " " << i;
        }
      }
    }
  });
}

TEST(PhiloxLanes, StreamsGiveEveryElementItsDraw) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{13}, std::int64_t{1} << 36}) {
      for (const std::int64_t some : {1, 49, 448, 1024}) {
        std::vector<std::uint16_t> draws(5001);
        ASSERT_TRUE(
            HWY_DYNAMIC_DISPATCH(test_draw_stream)(kKey, begin, begin + 5001, some, draws.data()));
        for (std::int64_t i = 0; i < 5001; ++i) {
          ASSERT_EQ(draws[i], philox::draw16(kKey, begin + i)) << target << " " << begin + i;
        }
      }
    }
  });
}

TEST(PhiloxLanes, BlocksThatAreApartAreTheScalarOnes) {
  for_each_target([](const std::string& target) {
    for (const std::uint64_t first :
         {std::uint64_t{0}, (std::uint64_t{1} << 32) - 7, ~std::uint64_t{0} - 100}) {
      for (const std::uint64_t apart :
           {std::uint64_t{1}, std::uint64_t{32}, std::uint64_t{1} << 31}) {
        std::uint32_t words[64];
        const std::int64_t lanes =
            HWY_DYNAMIC_DISPATCH(test_blocks_apart)(kKey, first, apart, words);
        for (std::int64_t i = 0; i < lanes; ++i) {
          const philox::Block block =
              philox::draw_block(kKey, first + static_cast<std::uint64_t>(i) * apart);
          for (int w = 0; w < 4; ++w) {
            ASSERT_EQ(words[16 * w + i], block.word[w]) << target << " " << first << " " << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace test
}  // namespace cinch::codecs

#endif  // HWY_ONCE
