// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class DivisionCuda : public DeviceTest {};

TEST_F(DivisionCuda, WritesTheReferencesBytes) {
  Random random(17);
  for (int round = 0; round < rounds(150) && !testing::Test::HasFailure(); ++round) {
    CodecSpec spec{.name = "division",
                   .bits = static_cast<int>(draw(random, 1, 8)),
                   .block = static_cast<int>(draw(random, 1, 20)),
                   .edge_ceil = draw(random, 0, 1) != 0,
                   .with_sign = draw(random, 0, 2) == 0};
    if (draw(random, 0, 1) != 0) spec.block = 8;
    if (draw(random, 0, 5) == 0) spec.block = static_cast<int>(draw(random, 30, 400));
    if (draw(random, 0, 2) == 0) draw_residual_group(random, spec);
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    const Bytes source = make_source(what, random_values(random, what.layout, spec.with_sign));
    const RandomKey key{static_cast<std::uint32_t>(random()), 3, random()};
    SCOPED_TRACE(describe(what, spec));
    expect_device_like_reference(spec, what, source, key, true);
  }
}

// Stretches with one mean, and others; blocks narrower and wider than a warp; 3 planes' means,
// which do not fill the alignment of what lies behind them.
TEST_F(DivisionCuda, ResidualsInGroups) {
  Random random(22);
  for (const std::array<std::int64_t, 3>& extent :
       {std::array<std::int64_t, 3>{1, 7, 7}, {1, 16, 56}, {1, 33, 12}, {1, 1, 3001}, {3, 8, 16}}) {
    for (const int block : {1, 5, 8, 64, 4096}) {
      for (const bool last : {false, true}) {
        CodecSpec spec{.name = "division",
                       .bits = static_cast<int>(draw(random, 1, 8)),
                       .block = block,
                       .edge_ceil = draw(random, 0, 2) != 0};
        draw_residual_group(random, spec);
        const ElementType type = kFloats[draw(random, 0, 2)];
        const Description what{
            .type = type, .layout = last ? channels_last(1, 3, extent) : contiguous(3, extent)};
        std::vector<float> x = random_values(random, what.layout, false);
        if (draw(random, 0, 1) != 0) spoil(random, x);
        const std::size_t offset = draw(random, 0, 3) == 0 ? element_size(type) : 0;
        SCOPED_TRACE(describe(what, spec) + " G " + std::to_string(spec.residual_group));
        expect_device_like_reference(spec, what, make_source(what, x), {8, 9, 10}, true, offset);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DivisionCuda, PlanesTooLargeForSharedMemory) {
  Random random(18);
  for (const std::array<std::int64_t, 3>& extent :
       {std::array<std::int64_t, 3>{1, 90, 83}, {1, 112, 112}, {3, 33, 31}, {1, 1, 6001}}) {
    for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
      for (const bool last : {false, true}) {
        const CodecSpec spec{.name = "division", .bits = 2, .with_sign = last};
        const Description what{
            .type = type, .layout = last ? channels_last(1, 3, extent) : contiguous(3, extent)};
        const Bytes source = make_source(what, random_values(random, what.layout, spec.with_sign));
        SCOPED_TRACE(describe(what, spec));
        expect_device_like_reference(spec, what, source, {1, 2, 3}, true);
      }
    }
  }
}

TEST_F(DivisionCuda, PoisonsTheReferencesPlanes) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Random random(19);
  for (const std::array<std::int64_t, 3>& extent :
       {std::array<std::int64_t, 3>{1, 7, 7}, {1, 16, 16}, {1, 90, 60}}) {
    for (const float bad : {kNan, kInf, -kInf, 0x1p90F}) {
      for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
        for (const bool last : {false, true}) {
          const Description what{
              .type = type, .layout = last ? channels_last(1, 16, extent) : contiguous(11, extent)};
          std::vector<float> x = random_values(random, what.layout, false);
          const std::int64_t size = what.layout.plane_size();
          for (const std::int64_t plane : {0, 4, 5, 10}) {
            x[plane * size + draw(random, 0, size - 1)] = bad;
          }
          const CodecSpec spec{.name = "division", .bits = 3};
          SCOPED_TRACE(describe(what, spec));
          expect_device_like_reference(spec, what, make_source(what, x), {4, 5, 6}, true);
        }
      }
    }
  }
}

// Whole vectors of channels and others, planes of whole stretches and others, blocks that end
// within a row and others.
TEST_F(DivisionCuda, ChannelsLast) {
  Random random(20);
  for (const std::array<std::int64_t, 3>& extent : {std::array<std::int64_t, 3>{1, 7, 7},
                                                    {1, 14, 14},
                                                    {1, 28, 28},
                                                    {1, 8, 24},
                                                    {1, 9, 13},
                                                    {3, 5, 6},
                                                    {1, 1, 9},
                                                    {2, 1, 40},
                                                    {2, 3, 9},
                                                    {1, 1, 1}}) {
    for (const std::int64_t channels : {1, 5, 8, 12, 24, 64, 72}) {
      const std::int64_t block = draw(random, 0, 2) != 0 ? 8 : draw(random, 1, 20);
      const CodecSpec spec{.name = "division",
                           .bits = static_cast<int>(draw(random, 1, 8)),
                           .block = static_cast<int>(block),
                           .edge_ceil = draw(random, 0, 3) != 0,
                           .with_sign = draw(random, 0, 2) == 0};
      const ElementType type = kFloats[draw(random, 0, 2)];
      const Description what{.type = type, .layout = channels_last(2, channels, extent)};
      const Bytes source = make_source(what, random_values(random, what.layout, spec.with_sign));
      SCOPED_TRACE(describe(what, spec));
      const std::size_t offset = draw(random, 0, 3) == 0 ? element_size(type) : 0;
      expect_device_like_reference(spec, what, source, {8, 9, 10}, true, offset);
      if (HasFailure()) return;
    }
  }
}

// Runs of eight, four, two and single elements; last tiles and last stretches that are not whole.
TEST_F(DivisionCuda, ContiguousPlanes) {
  Random random(21);
  for (const std::array<std::int64_t, 3>& extent : {std::array<std::int64_t, 3>{1, 7, 7},
                                                    {1, 14, 14},
                                                    {1, 28, 28},
                                                    {1, 16, 56},
                                                    {1, 33, 12},
                                                    {1, 1, 768},
                                                    {1, 1, 37},
                                                    {4, 6, 10},
                                                    {1, 1, 3}}) {
    for (const std::int64_t planes : {1, 3, 8, 37}) {
      for (const ElementType type : kFloats) {
        const CodecSpec spec{.name = "division",
                             .bits = static_cast<int>(draw(random, 1, 8)),
                             .with_sign = draw(random, 0, 2) == 0};
        const Description what{.type = type, .layout = contiguous(planes, extent)};
        const Bytes source = make_source(what, random_values(random, what.layout, spec.with_sign));
        SCOPED_TRACE(describe(what, spec));
        const std::size_t offset = draw(random, 0, 3) == 0 ? element_size(type) : 0;
        expect_device_like_reference(spec, what, source, {8, 9, 10}, true, offset);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DivisionCuda, NegativeElementsUnderWithSign) {
  const Description what{.type = ElementType::float32, .layout = contiguous(3, {1, 9, 9})};
  std::vector<float> x(what.layout.elements(), 1.0F);
  x[100] = -1.0F;
  expect_device_like_reference({.name = "division", .with_sign = true}, what, make_source(what, x),
                               {}, true);
}

TEST_F(DivisionCuda, EmptyAndSingleElement) {
  for (const std::int64_t planes : {0, 1}) {
    const Description what{.type = ElementType::float16, .layout = contiguous(planes, {1, 1, 1})};
    expect_device_like_reference({.name = "division"}, what,
                                 make_source(what, std::vector<float>(planes, 0.7F)), {}, true);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
