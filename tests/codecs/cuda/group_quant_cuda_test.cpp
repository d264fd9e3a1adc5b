// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class GroupQuantCuda : public DeviceTest {};

TEST_F(GroupQuantCuda, WritesTheReferencesBytes) {
  Random random(37);
  for (int round = 0; round < rounds(150) && !testing::Test::HasFailure(); ++round) {
    CodecSpec spec{.name = "group_quant", .bits = static_cast<int>(draw(random, 1, 8))};
    constexpr std::array kGroups = {8, 16, 24, 32, 64, 128, 256, 264, 512, 4096};
    spec.group = kGroups[draw(random, 0, kGroups.size() - 1)];
    spec.subtractive_dither = round % 3 == 0;
    if (round % 7 < 3) spec.floor = static_cast<float>(draw(random, 0, 16)) / 8.0F - 1.7F;
    spec.roots = spec.subtractive_dither && round % 7 >= 5;
    Description what{.type = random_float(random, *codec_traits(spec.name)),
                     .layout = random_layout(random)};
    spec.zero_code = round % 7 == 4 && spec.bits > 1 && what.type != ElementType::float64;
    std::vector<std::uint8_t> bits(what.layout.planes());
    for (std::uint8_t& b : bits) b = static_cast<std::uint8_t>(draw(random, 1, 8));
    if (draw(random, 0, 1) != 0 && !spec.zero_code) what.plane_bits = bits;
    const Bytes source =
        with_low_bits(random, what, make_source(what, random_values(random, what.layout, false)));
    const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
    SCOPED_TRACE(describe(what, spec) + " G " + std::to_string(spec.group));
    expect_device_like_reference(spec, what, source, key, true);
  }
}

/// A case of random bits, dither, floor, type and alignment; perhaps with bits that differ by
/// plane or a code for zeros, and with elements that can't be held.
void expect_like_reference(Random& random, const PlaneLayout& layout, int group) {
  CodecSpec spec{.name = "group_quant",
                 .bits = static_cast<int>(draw(random, 1, 8)),
                 .group = group,
                 .subtractive_dither = draw(random, 0, 1) != 0};
  if (draw(random, 0, 1) != 0) {
    spec.floor = -0.3F;
  } else {
    spec.roots = spec.subtractive_dither && draw(random, 0, 1) != 0;
  }
  Description what{.type = kFloats[draw(random, 0, 2)], .layout = layout};
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(layout.planes()));
  for (std::uint8_t& b : bits) b = static_cast<std::uint8_t>(draw(random, 1, 8));
  if (draw(random, 0, 3) == 0) what.plane_bits = bits;
  const bool plain = what.plane_bits.empty() && spec.floor == kNoFloor && !spec.roots;
  spec.zero_code = plain && spec.bits > 1 && draw(random, 0, 1) != 0;
  std::vector<float> x = random_values(random, layout, spec.zero_code && draw(random, 0, 3) != 0);
  if (draw(random, 0, 3) == 0) spoil(random, x);
  const std::size_t offset = draw(random, 0, 3) == 0 ? element_size(what.type) : 0;
  SCOPED_TRACE(describe(what, spec) + " G " + std::to_string(group));
  expect_device_like_reference(spec, what, make_source(what, x), {8, 9, 10}, true, offset);
}

TEST_F(GroupQuantCuda, ChannelsLastSamples) {
  Random random(41);
  for (const std::array<std::int64_t, 3>& shape : {std::array<std::int64_t, 3>{64, 7, 7},
                                                   {256, 7, 7},
                                                   {32, 14, 14},
                                                   {16, 28, 28},
                                                   {24, 8, 16},
                                                   {8, 8, 8},
                                                   {12, 8, 8},
                                                   {96, 4, 4},
                                                   {8, 64, 32},
                                                   {72, 16, 16},
                                                   {40, 16, 48},
                                                   {16, 56, 56},
                                                   {64, 2, 5},
                                                   {3, 16, 16}}) {
    for (const int group : {16, 32, 64, 256, 24}) {
      expect_like_reference(random, samples_last(2, shape), group);
      if (HasFailure()) return;
    }
  }
}

// Channels of whole stretches, four by four: units of 4 to 16 lanes, several columns to a block. In
// the last shapes channels are whole groups.
TEST_F(GroupQuantCuda, ColumnsOfChannelsLastSamples) {
  Random random(43);
  for (const std::array<std::int64_t, 3>& shape : {std::array<std::int64_t, 3>{40, 4, 8},
                                                   {24, 8, 8},
                                                   {72, 8, 16},
                                                   {24, 24, 24},
                                                   {16, 56, 56},
                                                   {8, 64, 64},
                                                   {8, 112, 112}}) {
    const PlaneLayout layout = samples_last(2, shape);
    for (const ElementType type : {kFloats[0], kFloats[1], kFloats[2]}) {
      for (const int bits : {2, 3, 4}) {
        CodecSpec spec{
            .name = "group_quant", .bits = bits, .group = 256, .subtractive_dither = bits != 2};
        if (bits != 3) spec.floor = -0.3F;
        const Description what{.type = type, .layout = layout};
        std::vector<float> x = random_values(random, layout, false);
        if (bits == 4) spoil(random, x);
        SCOPED_TRACE(describe(what, spec));
        expect_device_like_reference(spec, what, make_source(what, x), {8, 9, 10}, true);
        if (HasFailure()) return;
      }
    }
  }
}

// Whole groups and others, the group of which there is code of its own and others, and planes that
// end within a warp.
TEST_F(GroupQuantCuda, ContiguousPlanes) {
  Random random(42);
  for (const std::int64_t size : {256, 512, 768, 2048, 264, 504, 8, 1000}) {
    for (const std::int64_t planes : {1, 3, 13}) {
      for (const int group : {16, 64, 128, 256}) {
        expect_like_reference(random, contiguous(planes, {1, 1, size}), group);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(GroupQuantCuda, PlanesOverManyBlocksOfThreads) {
  Random random(38);
  for (const std::int64_t size : {9000, 9003}) {
    const Description what{.type = ElementType::bfloat16, .layout = contiguous(3, {1, 1, size})};
    expect_device_like_reference({.name = "group_quant"}, what,
                                 make_source(what, random_values(random, what.layout, false)),
                                 {1, 2, 3}, true);
  }
}

TEST_F(GroupQuantCuda, MorePlaneBitsThanALaunchCarries) {
  Random random(39);
  Description what{.type = ElementType::float32, .layout = contiguous(5000, {1, 1, 3})};
  std::vector<std::uint8_t> bits(5000);
  for (std::uint8_t& b : bits) b = static_cast<std::uint8_t>(draw(random, 1, 8));
  what.plane_bits = bits;
  expect_device_like_reference({.name = "group_quant"}, what,
                               make_source(what, random_values(random, what.layout, false)), {},
                               true);
}

TEST_F(GroupQuantCuda, PoisonsTheReferencesGroups) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Random random(40);
  for (const int group : {32, 256, 520}) {
    for (const float bad : {kNan, kInf, -kInf, 0x1p90F}) {
      const ElementType type = group == 256 ? ElementType::float64 : ElementType::float32;
      const Description what{.type = type, .layout = contiguous(3, {1, 1, 1000})};
      std::vector<float> x = random_values(random, what.layout, false);
      for (const std::int64_t k : {0, 999, 1500, 2999}) x[k] = bad;
      expect_device_like_reference({.name = "group_quant", .bits = 3, .group = group}, what,
                                   make_source(what, x), {4, 5, 6}, true);
    }
  }
}

TEST_F(GroupQuantCuda, Float64BeyondFloat32IsPoisonedAsInTheReference) {
  const Description what{.type = ElementType::float64, .layout = contiguous(1, {1, 1, 1000})};
  for (const double bad : {1e300, -1e39, 0x1.00001p80, 1e-320}) {
    std::vector<double> x(1000, 0.3);
    x[500] = bad;
    Bytes source(source_bytes(what));
    std::memcpy(source.data(), x.data(), source.size());
    expect_device_like_reference({.name = "group_quant", .group = 64}, what, source, {4, 5, 6},
                                 true);
  }
}

TEST_F(GroupQuantCuda, EmptyTensors) {
  const Description what{.type = ElementType::float16, .layout = contiguous(0, {1, 1, 9})};
  expect_device_like_reference({.name = "group_quant"}, what, {}, {}, true);
}

}  // namespace
}  // namespace cinch::codecs::test
