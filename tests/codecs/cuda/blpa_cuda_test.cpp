// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class BlpaCuda : public DeviceTest {};

TEST_F(BlpaCuda, WritesTheReferencesBytes) {
  Random random(67);
  for (int round = 0; round < rounds(120) && !testing::Test::HasFailure(); ++round) {
    const CodecSpec spec{.name = "blpa",
                         .bits = static_cast<int>(draw(random, 1, 8)),
                         .with_sign = draw(random, 0, 1) != 0};
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x =
        random_values(random, what.layout, spec.with_sign && draw(random, 0, 7) != 0);
    if (round % 9 == 0) x.back() = std::numeric_limits<float>::quiet_NaN();
    if (round % 9 == 1) x.front() = 0x1p90F;
    SCOPED_TRACE(describe(what, spec));
    expect_device_like_reference(spec, what, make_source(what, x), {}, true);
  }
}

TEST_F(BlpaCuda, ChannelsOfManyChunks) {
  Random random(68);
  for (const auto& layout : {contiguous(3, {1, 71, 67}), channels_last(2, 3, {1, 71, 67}),
                             channels_last(5000, 3, {1, 1, 1})}) {
    const Description what{.type = ElementType::bfloat16, .layout = layout};
    expect_device_like_reference({.name = "blpa", .bits = 4}, what,
                                 make_source(what, random_values(random, layout, false)), {}, true);
  }
}

TEST_F(BlpaCuda, CentersAndScalesThatAreGiven) {
  Random random(69);
  const Description plain{.type = ElementType::float32, .layout = channels_last(5, 3, {1, 9, 7})};
  const Bytes source = make_source(plain, random_values(random, plain.layout, true));
  const std::array<float, 6> numbers = {0.25F, -3.0F, 700.0F, 1.0F, -0.5F, 0.0F};
  Bytes bytes(sizeof numbers);
  std::memcpy(bytes.data(), numbers.data(), sizeof numbers);
  DeviceBytes on_device(bytes);
  for (const bool with_sign : {false, true}) {
    const CodecSpec spec{.name = "blpa", .bits = 4, .with_sign = with_sign};
    const auto host = make_codec(spec, Engine::reference);
    Description here = plain;
    here.channel_center = numbers.data();
    here.channel_scale = numbers.data() + 3;
    Description there = plain;
    there.channel_center = reinterpret_cast<const float*>(on_device.data());
    there.channel_scale = there.channel_center + 3;
    const Bytes expected = encode(*host, here, source);
    const auto device = cuda::make_device_codec(spec);
    EXPECT_EQ(device_encode(*device, *host, there, source, {}).bytes, expected);
    EXPECT_EQ(device_decode(*device, plain, expected, Reads::values),
              decode(*host, plain, expected));
  }
}

TEST_F(BlpaCuda, EmptyTensors) {
  const Description what{.type = ElementType::float32, .layout = channels_last(0, 3, {1, 2, 2})};
  expect_device_like_reference({.name = "blpa"}, what, {}, {}, true);
}

}  // namespace
}  // namespace cinch::codecs::test
