// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {

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
