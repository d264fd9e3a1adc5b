// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class WithSignCuda : public DeviceTest {};

TEST_F(WithSignCuda, WritesTheReferencesBytes) {
  Random random(41);
  constexpr std::array kValues = {SignedValues::non_negative, SignedValues::any,
                                  SignedValues::agreeing};
  for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
    constexpr std::array kNames = {"group_quant", "division", "blpa", "fixed_point", "dct"};
    const CodecSpec spec{.name = kNames[draw(random, 0, kNames.size() - 1)],
                         .group = 32,
                         .error_bound = 0.5F,
                         .with_sign = true,
                         .signed_values = kValues[round % 3]};
    const Description what{.type = random_float(random, *codec_traits(spec.name)),
                           .layout = random_layout(random)};
    const bool negatives = round % 3 != 0 || round % 9 == 0;
    std::vector<float> x = random_values(random, what.layout, !negatives);
    if (round % 7 == 0) x.front() = std::numeric_limits<float>::quiet_NaN();
    SCOPED_TRACE(describe(what, spec) + " values " + std::to_string(round % 3));
    expect_device_like_reference(spec, what, make_source(what, x), {1, 2, 3}, true);
  }
}

TEST_F(WithSignCuda, ChannelsSideBySide) {
  Random random(42);
  constexpr std::array kValues = {SignedValues::non_negative, SignedValues::any,
                                  SignedValues::agreeing};
  int round = 0;
  for (const PlaneLayout& layout : side_by_side_layouts()) {
    const SignedValues values = kValues[round % 3];
    const CodecSpec spec{
        .name = "group_quant", .group = 32, .with_sign = true, .signed_values = values};
    const Description what{.type = round % 4 < 2 ? ElementType::bfloat16 : ElementType::float32,
                           .layout = layout};
    SCOPED_TRACE(describe(what, spec) + " values " + std::to_string(round % 3));
    std::vector<float> x = random_values(random, layout, values == SignedValues::non_negative);
    if (round % 5 == 0) x.front() = std::numeric_limits<float>::quiet_NaN();
    const std::size_t offset = round % 7 == 0 ? element_size(what.type) : 0;
    expect_device_like_reference(spec, what, make_source(what, x), {1, 2, 3}, true, offset);
    ++round;
  }
}

class WithBoundsCuda : public DeviceTest {};

TEST_F(WithBoundsCuda, WritesTheReferencesBytes) {
  Random random(43);
  constexpr std::array kNames = {"group_quant", "division", "two_sided", "fixed_point"};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<PlaneLayout> side_by_side = side_by_side_layouts();
  for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
    const bool tiled = round % 5 == 0;
    const CodecSpec spec{.name = kNames[draw(random, 0, kNames.size() - 1)],
                         .group = 32,
                         .error_bound = 0.5F,
                         .lower = round % 3 == 0 ? -kInfinity : -0.25F,
                         .upper = round % 4 == 0 ? kInfinity : 0.5F,
                         .closed = round % 2 == 0,
                         .with_bounds = true};
    const Description what{.type = kFloats[draw(random, 0, kFloats.size() - 1)],
                           .layout = tiled ? side_by_side[draw(random, 0, side_by_side.size() - 1)]
                                           : random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, false);
    if (round % 7 == 0) x.front() = std::numeric_limits<float>::quiet_NaN();
    SCOPED_TRACE(describe(what, spec));
    expect_device_like_reference(spec, what, make_source(what, x), {1, 2, 3}, true);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
