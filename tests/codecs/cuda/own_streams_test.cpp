// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/own_streams.h"

#include "tests/codecs/cuda/device_support.h"

#ifdef CINCH_CUDA_ON_HOST
namespace cinch::codecs::test {
namespace {

class OwnStreamsTest : public DeviceTest {};

cuda::Stream stream_named(std::uintptr_t name) {
  return reinterpret_cast<cuda::Stream>(name);  // NOLINT(performance-no-int-to-ptr)
}

TEST_F(OwnStreamsTest, BoundsThreadsByAThirdOfTheMultiprocessors) {
  cuda::OwnStreams::add(stream_named(1000), 132);
  EXPECT_EQ(cuda::OwnStreams::most_threads(stream_named(1000)), 44 * 1024);
  const std::int64_t any = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(cuda::OwnStreams::most_threads(stream_named(1001)), any);
  EXPECT_EQ(cuda::OwnStreams::most_threads(nullptr), any);
}

struct Case {
  CodecSpec spec;
  Description what;
  /// What the source's elements are, where not as `what` says: any patterns will do.
  ElementType made_as = ElementType::other;
};

Bytes source_of(Case& one, Random& random) {
  if (one.what.type == ElementType::int64) return random_window_indices(random, one.what);
  Description what = one.what;
  if (one.made_as != ElementType::other) what.type = one.made_as;
  return normal_floats(what, false);
}

/// In a stream of Cinch's own the same bytes, by fewer blocks of threads than elsewhere.
TEST_F(OwnStreamsTest, KernelsGetFewBlocksThere) {
  cuda::OwnStreams::add(stream_named(2000), 1);
  const PlaneLayout rows = PlaneLayout::rows(1 << 15, 1 << 12);
  const PlaneLayout planes = contiguous(24, {1, 40, 40});
  const PlaneLayout last = channels_last(3, 32, {1, 20, 20});
  Random random(33);
  const std::array cases = {
      Case{{.name = "sign"}, {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "sign"}, {.type = ElementType::float64, .layout = last}},
      Case{{.name = "interval", .lower = -0.5F, .upper = 1.25F},
           {.type = ElementType::float32, .layout = rows}},
      Case{{.name = "raw"}, {.type = ElementType::float32, .layout = last}},
      Case{{.name = "two_valued"}, {.type = ElementType::float32, .layout = rows}},
      Case{{.name = "narrow"}, {.type = ElementType::int16, .layout = last}, ElementType::bfloat16},
      // So few elements that its survey, which has a block for each chunk, has few, too.
      Case{{.name = "blpa"}, {.type = ElementType::bfloat16, .layout = contiguous(8, {1, 40, 40})}},
      Case{{.name = "window_index"}, {.type = ElementType::int64, .layout = last}},
      Case{{.name = "group_quant", .bits = 4, .group = 256},
           {.type = ElementType::float64, .layout = rows}},
      Case{{.name = "group_quant", .bits = 3, .group = 1024, .subtractive_dither = true},
           {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "group_quant",
            .bits = 3,
            .group = 256,
            .with_sign = true,
            .signed_values = SignedValues::any},
           {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "exponent_pack"}, {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "exponent_pack"}, {.type = ElementType::float64, .layout = last}},
      Case{{.name = "group_quant", .bits = 3, .group = 256},
           {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "division", .bits = 2}, {.type = ElementType::bfloat16, .layout = planes}},
      Case{{.name = "division", .bits = 2}, {.type = ElementType::bfloat16, .layout = last}},
      Case{{.name = "division", .bits = 2}, {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "division", .bits = 2, .residual_group = 256, .subtractive_dither = true},
           {.type = ElementType::bfloat16, .layout = planes}},
      Case{{.name = "division", .bits = 2, .residual_group = 256},
           {.type = ElementType::float32, .layout = last}}};
  for (Case one : cases) {
    SCOPED_TRACE(describe(one.what, one.spec));
    const Bytes source = source_of(one, random);
    const auto most_blocks = [&](cuda::Stream stream) {
      const bool quantizes = !is_exact(*make_codec(one.spec, Engine::reference));
      expect_device_like_reference(one.spec, one.what, source, {7, 11, 13}, quantizes, 0, stream);
      return cuda_on_host::kernels().most_blocks;
    };
    EXPECT_GT(most_blocks(nullptr), 4U);
    EXPECT_LE(most_blocks(stream_named(2000)), 4U);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
#endif
