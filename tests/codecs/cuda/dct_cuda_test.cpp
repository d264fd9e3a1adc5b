// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class DctCuda : public DeviceTest {};

TEST_F(DctCuda, WritesTheReferencesBytes) {
  Random random(87);
  for (int round = 0; round < rounds(60) && !testing::Test::HasFailure(); ++round) {
    const CodecSpec spec{.name = "dct",
                         .error_bound = std::exp2(static_cast<float>(draw(random, -14, 3))),
                         .zero_value = draw(random, 0, 2) != 0};
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, false);
    if (round % 3 == 0) {
      for (std::size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<float>(k) * 0.05F);
    }
    if (round % 8 == 0) x.back() = std::numeric_limits<float>::quiet_NaN();
    SCOPED_TRACE(describe(what, spec) + " bound " + std::to_string(spec.error_bound));
    expect_device_like_reference(spec, what, make_source(what, x), {}, true);
  }
}

TEST_F(DctCuda, ChannelsAreRowsWherePlanesHaveOneElement) {
  Random random(88);
  const Description what{.type = ElementType::float32, .layout = channels_last(9, 300, {1, 1, 1})};
  expect_device_like_reference({.name = "dct", .error_bound = 0.1F}, what,
                               make_source(what, random_values(random, what.layout, false)), {},
                               true);
}

TEST_F(DctCuda, EmptyTensors) {
  const Description what{.type = ElementType::float32, .layout = contiguous(0, {1, 2, 2})};
  expect_device_like_reference({.name = "dct", .error_bound = 1.0F}, what, {}, {}, true);
}

}  // namespace
}  // namespace cinch::codecs::test
