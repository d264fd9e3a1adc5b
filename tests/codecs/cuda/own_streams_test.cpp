// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library/own_streams.h"

#include "codecs/cuda/launch_shape.h"
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

TEST_F(OwnStreamsTest, WavesTakeEachPieceOnce) {
  cuda::OwnStreams::add(stream_named(1500), 3);  // four blocks of 256 threads
  for (const unsigned count : {0U, 1U, 4U, 5U, 127U, 128U, 129U, 1001U}) {
    for (const cuda::Stream stream : {cuda::Stream(), stream_named(1500)}) {
      unsigned next = 0;
      int waves = 0;
      EXPECT_TRUE(cuda::in_waves(stream, count, 256, [&](unsigned first, unsigned blocks) {
        EXPECT_EQ(first, next);
        EXPECT_GT(blocks, 0U);
        EXPECT_LE(blocks, stream == nullptr ? count : std::max(4U, (count + 31) / 32));
        next += blocks;
        ++waves;
        return true;
      }));
      EXPECT_EQ(next, count);
      EXPECT_LE(waves, stream == nullptr ? 1 : 32);
    }
  }
  EXPECT_FALSE(cuda::in_waves(nullptr, 1, 256, [](unsigned, unsigned) { return false; }));
}

struct Case {
  CodecSpec spec;
  Description what;
  /// What the source's elements are, where not as `what` says: any patterns will do.
  ElementType made_as = ElementType::other;
  bool spoiled = false;  ///< with numbers that quantizers can't hold
  bool relu = false;
};

Bytes source_of(Case& one, Random& random) {
  if (one.what.type == ElementType::int64) return random_window_indices(random, one.what);
  Description what = one.what;
  if (one.made_as != ElementType::other) what.type = one.made_as;
  const Bytes source = normal_floats(what, one.relu);
  if (!one.spoiled) return source;
  std::vector<float> values = values_of(what, source);
  spoil(random, values);
  return make_source(what, values);
}

/// In a stream of Cinch's own the same bytes, by fewer threads at a time than elsewhere.
TEST_F(OwnStreamsTest, KernelsGetFewThreadsThere) {
  cuda::OwnStreams::add(stream_named(2000), 1);
  const PlaneLayout rows = PlaneLayout::rows(1 << 15, 1 << 12);
  const PlaneLayout planes = contiguous(24, {1, 40, 40});
  const PlaneLayout last = channels_last(3, 32, {1, 20, 20});
  // A sample of channels-last pixels is a plane.
  const PlaneLayout samples = samples_last(6, {64, 9, 8});
  const PlaneLayout large = contiguous(3, {1, 99, 111});  // than the stand-in's shared memory
  const auto bounded = [](const char* name, bool zero_value = false) {
    return CodecSpec{.name = name, .error_bound = 0.02F, .zero_value = zero_value};
  };
  Random random(33);
  const std::array cases = {
      Case{{.name = "sign"}, {.type = ElementType::bfloat16, .layout = rows}},
      Case{{.name = "sign"}, {.type = ElementType::float64, .layout = last}},
      Case{{.name = "interval", .lower = -0.5F, .upper = 1.25F},
           {.type = ElementType::float32, .layout = rows}},
      Case{{.name = "raw"}, {.type = ElementType::float32, .layout = last}},
      Case{{.name = "two_valued"}, {.type = ElementType::float32, .layout = rows}},
      Case{{.name = "narrow"}, {.type = ElementType::int16, .layout = last}, ElementType::bfloat16},
      Case{{.name = "blpa"}, {.type = ElementType::bfloat16, .layout = planes}},
      Case{{.name = "blpa", .bits = 3, .with_sign = true},
           {.type = ElementType::float32, .layout = last},
           ElementType::other,
           true},
      Case{bounded("error_bounded_ratio"), {.type = ElementType::bfloat16, .layout = planes}},
      Case{bounded("error_bounded_ratio"),
           {.type = ElementType::float32, .layout = last},
           ElementType::other,
           true,
           true},
      Case{bounded("fixed_point"), {.type = ElementType::bfloat16, .layout = planes}},
      Case{bounded("fixed_point", true),
           {.type = ElementType::float32, .layout = last},
           ElementType::other,
           true,
           true},
      Case{bounded("fixed_point"),
           {.type = ElementType::float16, .layout = contiguous(10, {1, 61, 67})}},
      Case{bounded("dct"), {.type = ElementType::bfloat16, .layout = planes}},
      Case{bounded("dct", true),
           {.type = ElementType::float32, .layout = last},
           ElementType::other,
           true,
           true},
      Case{{.name = "division", .bits = 2}, {.type = ElementType::bfloat16, .layout = large}},
      Case{{.name = "division", .bits = 3, .with_sign = true},
           {.type = ElementType::float32, .layout = large},
           ElementType::other,
           true,
           true},
      Case{{.name = "group_quant", .bits = 3, .group = 64, .subtractive_dither = true},
           {.type = ElementType::bfloat16, .layout = samples}},
      Case{{.name = "group_quant", .bits = 8, .group = 256},
           {.type = ElementType::float32, .layout = samples},
           ElementType::other,
           true},
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
    const auto most_threads = [&](cuda::Stream stream) {
      const bool quantizes = !is_exact(*make_codec(one.spec, Engine::reference));
      expect_device_like_reference(one.spec, one.what, source, {7, 11, 13}, quantizes, 0, stream);
      return cuda_on_host::kernels().most_threads;
    };
    EXPECT_GT(most_threads(nullptr), 1024U);
    EXPECT_LE(most_threads(stream_named(2000)), 1024U);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
#endif
