// SPDX-License-Identifier: Apache-2.0
#include "codecs/arithmetic/norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs {
namespace {

using test::two_threads;
using Floats = std::vector<float>;

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Floats normal(std::size_t n, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> values;
  Floats result(n);
  for (float& x : result) x = values(engine);
  return result;
}

TEST(Norms, ChannelsAreScaledInEveryOrder) {
  for (const ChannelOrder order : {ChannelOrder{3, 5, 37, 1}, ChannelOrder{6, 13, 1, 1},
                                   ChannelOrder{4, 3, 16, 4}, ChannelOrder{8, 19, 1, 2}}) {
    const auto n = static_cast<std::size_t>(order.outer * order.channels * order.inner);
    const auto constants = static_cast<std::size_t>(order.tables * order.channels);
    const Floats x = normal(n, 1);
    const Floats scale = normal(constants, 2);
    const Floats shift = normal(constants, 3);
    Floats expected(n);
    for (std::size_t k = 0; k < n; ++k) {
      const auto inner = static_cast<std::size_t>(order.inner);
      const auto channels = static_cast<std::size_t>(order.channels);
      const std::size_t per_table = n / static_cast<std::size_t>(order.tables);
      const std::size_t c = k / per_table * channels + k / inner % channels;
      expected[k] = std::fma(x[k], scale[c], shift[c]);
    }
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      Floats y(n, -1);
      scale_channels(order, x.data(), scale.data(), shift.data(), y.data(), two_threads, engine);
      EXPECT_TRUE(same_bits(y, expected));
      y = x;  // in place
      scale_channels(order, y.data(), scale.data(), shift.data(), y.data(), serial_for, engine);
      EXPECT_TRUE(same_bits(y, expected));
      y = x;  // in pieces
      const auto all = static_cast<std::int64_t>(n);
      for (std::int64_t k = 0; k < all; k += 29) {
        scale_channels(order, k, std::min(all, k + 29), y.data(), scale.data(), shift.data(),
                       y.data(), engine);
      }
      EXPECT_TRUE(same_bits(y, expected));
    }
  }
}

TEST(Norms, RowsAreNormalizedWithOneRoundingLess) {
  constexpr std::size_t rows = 5;
  for (const std::size_t n : {1U, 7U, 16U, 129U}) {
    const Floats x = normal(rows * n, 1);
    const Floats mean = normal(rows, 2);
    const Floats rstd = normal(rows, 3);
    const Floats weight = normal(n, 4);
    const Floats bias = normal(n, 5);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      Floats y(rows * n);
      normalize_rows(rows, static_cast<std::int64_t>(n), x.data(), mean.data(), rstd.data(),
                     weight.data(), bias.data(), y.data(), two_threads, engine);
      for (std::size_t k = 0; k < y.size(); ++k) {
        const float scaled = (x[k] - mean[k / n]) * rstd[k / n];
        ASSERT_EQ(y[k], std::fma(scaled, weight[k % n], bias[k % n]));
      }
      Floats pieces = x;
      const auto all = static_cast<std::int64_t>(rows * n);
      for (std::int64_t k = 0; k < all; k += 29) {
        normalize_rows(k, std::min(all, k + 29), static_cast<std::int64_t>(n), pieces.data(),
                       mean.data(), rstd.data(), weight.data(), bias.data(), pieces.data(), engine);
      }
      EXPECT_TRUE(same_bits(pieces, y));
    }
  }
}

TEST(Norms, MasksZeroAllButNaNs) {
  constexpr std::size_t n = 1000;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Floats x = normal(n, 1);
  x[3] = x[500] = nan;
  std::vector<std::byte> bits(n / 8 + 8);
  Floats expected = x;
  for (std::size_t k = 0; k < n; ++k) {
    const bool set = k % 3 == 0;
    if (set) bits[k / 8] |= std::byte(1U << (k % 8));
    if (!set && !std::isnan(x[k])) expected[k] = 0;
  }
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    Floats y = x;
    zero_where_clear(n, bits.data(), y.data(), two_threads, engine);
    EXPECT_TRUE(same_bits(y, expected));
  }
  Floats y = {1, -1, 0, -0.0F, nan};
  zero_where_not_positive(5, y.data(), serial_for);
  EXPECT_TRUE(same_bits(y, {1, 0, 0, 0, nan}));
}

}  // namespace
}  // namespace cinch::codecs
