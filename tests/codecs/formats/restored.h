// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {

/// What x decodes to, which it can be encoded as.
inline std::vector<float> restored(const CodecSpec& spec, const Description& what,
                                   const std::vector<float>& x, RandomKey key = {}) {
  const auto codec = make_codec(spec);
  Bytes out(codec->encoded_bytes(what));
  EXPECT_TRUE(codec->encode(what, make_source(what, x).data(), out, key, serial_for).representable);
  return values_of(what, decode(*codec, what, out));
}

inline double squared_error(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (y[i] - x[i]) * (y[i] - x[i]);
  return sum;
}

/// How far the mean over draws is from x, squared, in shares of what a mean of so many scatters: 1
/// of an unbiased codec.
inline double squared_bias(const CodecSpec& spec, const Description& what,
                           const std::vector<float>& x) {
  constexpr int kDraws = 400;
  std::vector<double> mean(x.size());
  double error = 0.0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto y = restored(spec, what, x, {1, 2, static_cast<std::uint64_t>(draw)});
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / kDraws;
    error += squared_error(x, y) / kDraws;
  }
  double bias = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) bias += (mean[i] - x[i]) * (mean[i] - x[i]);
  return bias / (error / kDraws);
}

/// Expects that `bad` can't be held among `x`, and that only its group is lost, in both engines.
/// @pre groups are of 256 elements, of which x has at least three
inline void expect_one_poisoned_group(const CodecSpec& spec, const Description& what,
                                      std::vector<float> x, float bad) {
  x[300] = bad;
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(spec, engine);
    const Bytes source = make_source(what, x);
    Bytes out(codec->encoded_bytes(what));
    EXPECT_FALSE(codec->encode(what, source.data(), out, {}, serial_for).representable) << bad;
    const std::vector<float> y = values_of(what, decode(*codec, what, out));
    EXPECT_TRUE(std::isnan(y[300]) && std::isnan(y[511])) << bad;
    EXPECT_FALSE(std::isnan(y[255]) || std::isnan(y[512])) << bad;
  }
}

}  // namespace cinch::codecs::test
