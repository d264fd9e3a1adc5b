// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class MasksCuda : public DeviceTest {};

TEST_F(MasksCuda, WriteTheReferencesBytes) {
  Random random(27);
  for (int round = 0; round < rounds(60) && !testing::Test::HasFailure(); ++round) {
    Description what{.type = random_float(random, *codec_traits("sign")),
                     .layout = random_layout(random)};
    SCOPED_TRACE(describe(what, {.name = "masks"}));
    expect_device_like_reference({.name = "sign"}, what,
                                 make_source(what, random_values(random, what.layout, false)), {},
                                 false);
    what.type = kTypes[draw(random, 0, kTypes.size() - 1)];
    const Bytes source = random_patterns(random, what);
    expect_device_like_reference({.name = "raw"}, what, source, {}, false);
    if (what.type != ElementType::other) {
      expect_device_like_reference({.name = "two_valued"}, what, source, {}, false);
    }
  }
}

TEST_F(MasksCuda, IntervalsWriteTheReferencesBytes) {
  Random random(28);
  for (int round = 0; round < rounds(40) && !testing::Test::HasFailure(); ++round) {
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, false);
    if (round % 10 == 0) x.back() = std::numeric_limits<float>::quiet_NaN();
    SCOPED_TRACE(describe(what, {.name = "interval"}));
    const bool closed = round % 3 == 0;
    const CodecSpec spec{.name = "interval", .lower = -0.5F, .upper = 1.25F, .closed = closed};
    expect_device_like_reference(spec, what, make_source(what, x), {}, false);
  }
}

TEST_F(MasksCuda, NarrowIntegersWriteTheReferencesBytes) {
  Random random(31);
  constexpr std::array kIntegers = {ElementType::uint8, ElementType::int16, ElementType::int32,
                                    ElementType::int64};
  for (int round = 0; round < rounds(80) && !testing::Test::HasFailure(); ++round) {
    const Description what{.type = kIntegers[round % 4], .layout = random_layout(random)};
    const std::size_t size = element_size(what.type);
    const int bits = static_cast<int>(draw(random, 0, std::min<std::int64_t>(36, 8 * size)));
    const std::uint64_t min = random() * std::uint64_t{0x9E3779B97F4A7C15};
    Bytes source(source_bytes(what), std::byte{0xA5});
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::uint64_t distance =
          (std::uint64_t{random()} << 32 | random()) & ((std::uint64_t{1} << bits) - 1);
      reference::store_bits(source.data(), reference::offset_of(what.layout, k), size,
                            min + distance);
    }
    SCOPED_TRACE(describe(what, {.name = "narrow"}));
    expect_device_like_reference({.name = "narrow"}, what, source, {}, false);
  }
}

TEST_F(MasksCuda, ChannelsSideBySide) {
  Random random(32);
  int round = 0;
  for (const PlaneLayout& layout : side_by_side_layouts()) {
    for (const ElementType type : kTypes) {
      if (type == ElementType::other) continue;
      const Description what{.type = type, .layout = layout};
      SCOPED_TRACE(describe(what, {.name = "masks"}));
      const std::size_t offset = round++ % 4 == 0 ? element_size(type) : 0;
      expect_device_like_reference({.name = "two_valued"}, what, random_patterns(random, what), {},
                                   false, offset);
      if (!is_float(type)) continue;
      std::vector<float> x = random_values(random, layout, false);
      if (round % 5 == 0) x[x.size() / 3] = std::numeric_limits<float>::quiet_NaN();
      const Bytes source = make_source(what, x);
      expect_device_like_reference({.name = "sign"}, what, source, {}, false, offset);
      if (type == ElementType::float64) continue;
      expect_device_like_reference({.name = "interval", .lower = -0.5F, .upper = 1.25F}, what,
                                   source, {}, false, offset);
    }
  }
}

TEST_F(MasksCuda, SignsOfNanAreNotRepresentable) {
  const Description what{.type = ElementType::bfloat16, .layout = contiguous(3, {1, 50, 20})};
  std::vector<float> x(what.layout.elements(), 1.0F);
  Bytes source = make_source(what, x);
  constexpr std::uint16_t kNan = 0x7FC1;
  std::memcpy(source.data() + 2 * 2900, &kNan, 2);
  expect_device_like_reference({.name = "sign"}, what, source, {}, false);
}

TEST_F(MasksCuda, WindowIndicesWriteTheReferencesBytes) {
  Random random(29);
  for (int round = 0; round < rounds(60) && !testing::Test::HasFailure(); ++round) {
    Description what{.type = ElementType::int64, .layout = random_layout(random)};
    const Bytes source = random_window_indices(random, what);
    SCOPED_TRACE(describe(what, {.name = "window_index"}));
    expect_device_like_reference({.name = "window_index"}, what, source, {}, false);
  }
}

TEST_F(MasksCuda, WindowIndicesOfChannelsSideBySide) {
  Random random(33);
  int round = 0;
  for (const PlaneLayout& layout : side_by_side_layouts()) {
    Description what{.type = ElementType::int64, .layout = layout};
    const Bytes source = random_window_indices(random, what);
    SCOPED_TRACE(describe(what, {.name = "window_index"}));
    expect_device_like_reference({.name = "window_index"}, what, source, {}, false,
                                 round++ % 4 == 0 ? 8 : 0);
  }
}

TEST_F(MasksCuda, WindowTablesLongerThanSharedMemory) {
  Random random(30);
  Description what{.type = ElementType::int64, .layout = contiguous(2, {1, 1, 5000})};
  const Bytes source = random_window_indices(random, what);
  expect_device_like_reference({.name = "window_index"}, what, source, {}, false);
}

TEST_F(MasksCuda, EmptyTensors) {
  for (const std::string name :
       {"sign", "raw", "two_valued", "window_index", "interval", "narrow"}) {
    const bool integers = name == "window_index" || name == "narrow";
    const Description what{.type = integers ? ElementType::int64 : ElementType::float32,
                           .layout = contiguous(0, {1, 3, 4}),
                           .index_extent = {1, 6, 8}};
    expect_device_like_reference({.name = name}, what, {}, {}, false);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
