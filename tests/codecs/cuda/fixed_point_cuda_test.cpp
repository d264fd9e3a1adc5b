// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class FixedPointCuda : public DeviceTest {};

TEST_F(FixedPointCuda, WritesTheReferencesBytes) {
  Random random(47);
  for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
    const float bound = std::exp2(static_cast<float>(draw(random, -14, 2)));
    const CodecSpec spec{
        .name = "fixed_point", .error_bound = bound, .zero_value = draw(random, 0, 2) != 0};
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, false);
    const std::int64_t sparse = draw(random, 0, 3);  // quarters of zeros
    for (float& v : x) v = draw(random, 0, 3) < sparse ? 0.0F : v;
    if (round % 8 == 0) x.back() = std::numeric_limits<float>::infinity();
    SCOPED_TRACE(describe(what, spec) + " bound " + std::to_string(bound));
    expect_device_like_reference(spec, what, make_source(what, x),
                                 {static_cast<std::uint32_t>(random()), 3, random()}, true);
  }
}

TEST_F(FixedPointCuda, ChannelsOfManyChunks) {
  Random random(48);
  for (const bool last : {false, true}) {
    const Description what{
        .type = ElementType::float32,
        .layout = last ? channels_last(3, 5, {1, 61, 53}) : contiguous(2, {1, 100, 103})};
    std::vector<float> x = random_values(random, what.layout, false);
    for (float& v : x) v = draw(random, 0, 2) != 0 ? 0.0F : v;
    for (const bool zero_value : {false, true}) {
      expect_device_like_reference(
          {.name = "fixed_point", .error_bound = 1e-3F, .zero_value = zero_value}, what,
          make_source(what, x), {1, 2, 3}, true);
    }
  }
}

TEST_F(FixedPointCuda, BoundsByChannel) {
  Random random(49);
  const Description plain{.type = ElementType::bfloat16, .layout = channels_last(40, 6, {1, 1, 1})};
  const Bytes source = make_source(plain, random_values(random, plain.layout, false));
  const std::array<float, 6> bounds = {0.5F, 1e-2F, 0.0F, 1.0F, 1e-6F, 0.1F};
  Bytes bytes(sizeof bounds);
  std::memcpy(bytes.data(), bounds.data(), sizeof bounds);
  DeviceBytes on_device(bytes);

  const CodecSpec spec{.name = "fixed_point", .error_bound = 1.0F};
  const auto host = make_codec(spec, Engine::reference);
  Description here = plain;
  here.channel_bound = bounds.data();
  Description there = plain;
  there.channel_bound = reinterpret_cast<const float*>(on_device.data());
  EXPECT_EQ(device_encode(*cuda::make_device_codec(spec), *host, there, source, {7, 8, 9}).bytes,
            encode(*host, here, source, {7, 8, 9}));
}

TEST_F(FixedPointCuda, EmptyTensors) {
  const CodecSpec spec{.name = "fixed_point", .error_bound = 1.0F};
  const Description what{.type = ElementType::float32, .layout = channels_last(0, 3, {1, 2, 2})};
  expect_device_like_reference(spec, what, {}, {}, true);
}

}  // namespace
}  // namespace cinch::codecs::test
