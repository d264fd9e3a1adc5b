// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class MasksCuda : public DeviceTest {};

TEST_F(MasksCuda, WriteTheReferencesBytes) {
  Random random(27);
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
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
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    Description what{.type = ElementType::int64, .layout = random_layout(random)};
    const Bytes source = random_window_indices(random, what);
    SCOPED_TRACE(describe(what, {.name = "window_index"}));
    expect_device_like_reference({.name = "window_index"}, what, source, {}, false);
  }
}

TEST_F(MasksCuda, WindowTablesLongerThanSharedMemory) {
  Random random(30);
  Description what{.type = ElementType::int64, .layout = contiguous(2, {1, 1, 5000})};
  const Bytes source = random_window_indices(random, what);
  expect_device_like_reference({.name = "window_index"}, what, source, {}, false);
}

TEST_F(MasksCuda, EmptyTensors) {
  for (const char* name : {"sign", "raw", "two_valued", "window_index"}) {
    const bool integers = std::string(name) == "window_index";
    const Description what{.type = integers ? ElementType::int64 : ElementType::float32,
                           .layout = contiguous(0, {1, 3, 4}),
                           .index_extent = {1, 6, 8}};
    expect_device_like_reference({.name = name}, what, {}, {}, false);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
