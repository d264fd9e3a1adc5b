// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class ErrorBoundedCuda : public DeviceTest {};

TEST_F(ErrorBoundedCuda, WritesTheReferencesBytes) {
  Random random(77);
  for (int round = 0; round < rounds(30) && !testing::Test::HasFailure(); ++round) {
    const CodecSpec spec{.name = "error_bounded",
                         .error_bound = std::exp2(static_cast<float>(draw(random, -24, 4)))};
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, draw(random, 0, 1) != 0);
    if (round % 8 == 0) x.back() = std::numeric_limits<float>::quiet_NaN();
    if (round % 8 == 1) x.front() = -std::numeric_limits<float>::infinity();
    SCOPED_TRACE(describe(what, spec) + " bound " + std::to_string(spec.error_bound));
    expect_device_like_reference(spec, what, make_source(what, x), {}, true);
  }
}

TEST_F(ErrorBoundedCuda, EveryPatternOfSixteenBits) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    const Description what{.type = type, .layout = contiguous(1, {1, 1, 65536})};
    Bytes source(2 * 65536);
    for (std::uint32_t k = 0; k < 65536; ++k) std::memcpy(source.data() + 2 * k, &k, 2);
    for (const float bound : {1e-6F, 0.03F, 100.0F}) {
      expect_device_like_reference({.name = "error_bounded", .error_bound = bound}, what, source,
                                   {}, true);
    }
  }
}

TEST_F(ErrorBoundedCuda, EmptyTensors) {
  const Description what{.type = ElementType::float32, .layout = contiguous(0, {1, 2, 2})};
  expect_device_like_reference({.name = "error_bounded", .error_bound = 1.0F}, what, {}, {}, true);
}

}  // namespace
}  // namespace cinch::codecs::test
