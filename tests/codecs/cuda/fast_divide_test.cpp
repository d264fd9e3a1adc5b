// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/elements/fast_divide.h"

#include <random>

#include <gtest/gtest.h>

namespace cinch::codecs::cuda {
namespace {

TEST(FastDivide, IsDivision) {
  std::mt19937 random(1);
  constexpr std::uint32_t kTop = 0x7FFFFFFFU;
  for (int round = 0; round < 3000; ++round) {
    std::uint32_t divisor = random() >> (1 + random() % 31);
    if (round < 70) divisor = round;
    if (round >= 70 && round < 100) divisor = (1U << (round - 70)) + random() % 3 - 1;
    if (divisor == 0) divisor = kTop;
    const FastDivide by(divisor);
    for (int i = 0; i < 50; ++i) {
      std::uint32_t n = random() >> 1;
      if (i < 3) n = i;
      if (i == 3) n = kTop;
      if (i > 3 && i < 20) n = std::min(kTop, n / divisor * divisor + i % 3 - 1);
      if (n > kTop) n = 0;
      std::uint32_t rest = n;
      ASSERT_EQ(by.split(rest), n / divisor) << n << " / " << divisor;
      ASSERT_EQ(rest, n % divisor);
    }
  }
}

}  // namespace
}  // namespace cinch::codecs::cuda
