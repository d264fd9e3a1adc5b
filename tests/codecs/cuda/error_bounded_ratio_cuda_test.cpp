// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

CodecSpec ratio(float bound, int refresh = 100) {
  return {.name = "error_bounded_ratio", .error_bound = bound, .refresh = refresh};
}

Description planes(std::int64_t count, std::array<std::int64_t, 3> extent,
                   ElementType type = ElementType::float32) {
  return {.type = type, .layout = contiguous(count, extent)};
}

/// A smooth surface, to which Lorenzo prediction is fit, with noise.
std::vector<float> smooth(Random& random, const PlaneLayout& layout, float noise) {
  std::normal_distribution<float> normal;
  std::vector<float> x(layout.elements());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto i = static_cast<float>(k % layout.plane_size());
    const auto width = static_cast<float>(layout.extent[2]);
    x[k] = noise * normal(random) +
           3.0F * std::sin(0.05F * std::floor(i / width)) * std::cos(0.07F * std::fmod(i, width));
  }
  return x;
}

class ErrorBoundedRatioCuda : public DeviceTest {};

TEST_F(ErrorBoundedRatioCuda, WritesTheReferencesBytes) {
  Random random(78);
  for (int round = 0; round < rounds(30) && !testing::Test::HasFailure(); ++round) {
    const CodecSpec spec = ratio(std::exp2(static_cast<float>(draw(random, -24, 4))));
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    std::vector<float> x = random_values(random, what.layout, draw(random, 0, 1) != 0);
    if (round % 8 == 0) x.back() = std::numeric_limits<float>::quiet_NaN();
    if (round % 8 == 1) x.front() = -std::numeric_limits<float>::infinity();
    SCOPED_TRACE(describe(what, spec) + " bound " + std::to_string(spec.error_bound));
    expect_device_like_reference(spec, what, make_source(what, x), {}, true);
  }
}

/// Shapes that put chunks together or cut them along each axis, and every kind of plan.
TEST_F(ErrorBoundedRatioCuda, EveryShapeOfChunksAndEveryPlan) {
  Random random(79);
  bool seen[3][2] = {};
  const Description shapes[] = {
      planes(1, {1, 1, 20000}),
      planes(700, {1, 7, 7}),
      planes(3, {1, 100, 130}, ElementType::bfloat16),
      planes(2, {1, 3, 5000}, ElementType::float16),
      planes(2, {40, 12, 30}),
      planes(5, {5, 24, 24}),
      planes(40, {1, 1, 1000}),
      planes(1, {1, 1, 3}),
      {.layout = channels_last(2, 40, {1, 28, 28})},
  };
  for (const Description& what : shapes) {
    const PlaneLayout& l = what.layout;
    std::vector<std::vector<float>> sources;
    for (const float noise : {0.0F, 0.01F, 2.0F}) sources.push_back(smooth(random, l, noise));
    std::vector<float> relu = sources.back();
    for (float& v : relu) v = std::max(v - 1.0F, 0.0F);
    sources.push_back(relu);
    // Each plane like the one before.
    std::vector<float> repeated = sources[2];
    for (std::int64_t k = l.plane_size(); k < l.elements(); ++k) {
      repeated[k] = repeated[k - l.plane_size()];
    }
    sources.push_back(repeated);
    // Zeros between stretches of something.
    std::vector<float> sparse(l.elements());
    for (std::size_t k = 0; k < sparse.size(); k += 97) sparse[k] = relu[k];
    sources.push_back(sparse);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      SCOPED_TRACE(describe(what, {}) + " source " + std::to_string(s));
      const Bytes source = make_source(what, sources[s]);
      expect_device_like_reference(ratio(0.03F), what, source, {}, true);
      if (testing::Test::HasFatalFailure()) return;
      const auto host = make_codec(ratio(0.03F), Engine::cpu);
      Bytes out(host->encoded_bytes(what));
      host->encode(what, source.data(), out, {}, serial_for);
      RatioHeader header;
      ASSERT_TRUE(header.read(out, what, RatioChunks(l).count()));
      seen[static_cast<int>(header.plan.predictor)][header.plan.runs ? 1 : 0] = true;
    }
  }
  for (int p = 0; p < 3; ++p) {
    EXPECT_TRUE(seen[p][0] || seen[p][1]) << "no plan with predictor " << p;
  }
  EXPECT_TRUE(seen[0][0] && seen[0][1]);
}

TEST_F(ErrorBoundedRatioCuda, EveryPatternOfSixteenBits) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    const Description what = planes(1, {1, 1, 65536}, type);
    Bytes source(2 * 65536);
    for (std::uint32_t k = 0; k < 65536; ++k) std::memcpy(source.data() + 2 * k, &k, 2);
    for (const float bound : {1e-6F, 0.03F, 100.0F}) {
      expect_device_like_reference(ratio(bound), what, source, {}, true);
    }
  }
}

TEST_F(ErrorBoundedRatioCuda, MoreChunksThanASampleHas) {
  Random random(80);
  const Description what = planes(40, {1, 8, 1024}, ElementType::bfloat16);
  const Bytes source = make_source(what, smooth(random, what.layout, 0.1F));
  expect_device_like_reference(ratio(0.02F), what, source, {}, true);
}

TEST_F(ErrorBoundedRatioCuda, EmptyTensors) {
  const Description what = planes(0, {1, 2, 2});
  expect_device_like_reference(ratio(1.0F), what, {}, {}, true);
}

/// What nobody encoded restores anything, but nothing is touched that shouldn't be.
TEST_F(ErrorBoundedRatioCuda, DamagedBytes) {
  Random random(82);
  const Description what = planes(3, {1, 40, 70});
  const Bytes source = make_source(what, smooth(random, what.layout, 0.2F));
  const auto host = make_codec(ratio(0.02F), Engine::cpu);
  Bytes encoded(host->encoded_bytes(what));
  encoded.resize(host->encode(what, source.data(), encoded, {}, serial_for).bytes);
  const auto device = cuda::make_device_codec(ratio(0.02F));
  for (int round = 0; round < rounds(40); ++round) {
    Bytes damaged = encoded;
    const std::int64_t reach = round % 2 == 0 ? 140 : std::ssize(damaged) - 1;
    for (std::int64_t i = draw(random, 1, 4); i > 0; --i) {
      damaged[draw(random, 0, reach)] ^= static_cast<std::byte>(draw(random, 1, 255));
    }
    if (round % 5 == 0) damaged.resize(draw(random, 40, std::ssize(damaged)));
    Bytes expected(source_bytes(what), std::byte{0xA5});
    if (host->decode(what, damaged, expected.data(), Reads::values, serial_for)) {
      EXPECT_EQ(device_decode(*device, what, damaged, Reads::values), expected);
    } else {
      device_decode(*device, what, damaged, Reads::values);
    }
  }
}

}  // namespace
}  // namespace cinch::codecs::test
