// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "codecs/affine.h"
#include "codecs/cuda/curvature/without_bias.h"
#include "codecs/cuda/library/own_streams.h"
#include "codecs/float_formats.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class WithoutBiasCuda : public DeviceTest {};

Description neighbours(ElementType type, std::int64_t n) {
  return {.type = type, .layout = PlaneLayout::rows(n, n)};
}

/// A decoded storage with its groups' steps, and the part of it that a function is applied to.
struct SmoothCase {
  Description what;
  std::int64_t group;
  cuda::Rows rows;
  bool interleaved;
  std::vector<float> steps;
  Bytes source;

  SmoothCase(Random& random, ElementType type, std::int64_t planes, std::int64_t plane,
             std::int64_t group_size, cuda::Rows part, bool alternating = false)
      : what{.type = type, .layout = PlaneLayout::rows(planes * plane, plane)},
        group(group_size),
        rows(part),
        interleaved(alternating) {
    std::normal_distribution<float> normal;
    const std::int64_t groups = (plane - 1) / group + 1;
    for (std::int64_t k = 0; k < planes * groups; ++k) {
      steps.push_back(float_of_bf16(bf16_nearest(std::abs(normal(random)))));
    }
    std::vector<float> x(static_cast<std::size_t>(planes * plane));
    for (float& each : x) each = 4 * normal(random);
    source = make_source(what, x);
  }

  /// What the reference engine gives.
  std::vector<float> expected(Smooth function) const {
    const std::vector<float> all = values_of(what, source);
    const GroupSteps of = {steps.data(), {group, what.layout.plane_size(), interleaved}};
    std::vector<float> values;
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      const std::int64_t first = rows.first + r * rows.stride;
      std::vector<float> x(all.begin() + first, all.begin() + first + rows.row);
      apply_without_bias(function, of, first, rows.row, x.data(), x.data(), serial_for,
                         Engine::reference);
      values.insert(values.end(), x.begin(), x.end());
    }
    return values;
  }

  /// @param offset bytes by which the storage is moved from an aligned address
  Bytes actual(Smooth function, std::size_t offset = 0, cuda::Stream stream = nullptr) const {
    std::vector<AffineRange> stored;
    for (const float step : steps) stored.push_back({0xABCD, bf16_nearest(step)});
    Bytes bytes(stored.size() * sizeof(AffineRange));
    std::memcpy(bytes.data(), stored.data(), bytes.size());
    DeviceBytes ranges(bytes);
    Bytes moved(offset, std::byte{0xEE});
    moved.insert(moved.end(), source.begin(), source.end());
    DeviceBytes from(moved);
    const std::size_t size = element_size(what.type);
    const std::size_t n = static_cast<std::size_t>(rows.rows * rows.row) * size;
    DeviceBytes to(n);
    EXPECT_TRUE(cuda::apply_without_bias(
        function, what.type, {ranges.data(), {group, what.layout.plane_size(), interleaved}}, rows,
        from.data() + offset + static_cast<std::size_t>(rows.first) * size, to.data(), stream));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return to.host(n);
  }
};

constexpr ElementType kTypes[] = {ElementType::float32, ElementType::bfloat16, ElementType::float16,
                                  ElementType::float64};
constexpr Smooth kFunctions[] = {Smooth::gelu, Smooth::gelu_tanh, Smooth::silu};

void expect_like_reference(const SmoothCase& c, std::size_t offset = 0,
                           cuda::Stream stream = nullptr) {
  for (const Smooth function : kFunctions) {
    const std::vector<float> values = c.expected(function);
    const Bytes expected = make_source(neighbours(c.what.type, c.rows.rows * c.rows.row), values);
    const Bytes actual = c.actual(function, offset, stream);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(int(actual[k]), int(expected[k]))
          << "byte " << k << " of " << expected.size() << ", function " << int(function)
          << ", type " << int(c.what.type);
    }
  }
}

TEST_F(WithoutBiasCuda, GivesTheReferencesBits) {
  Random random(71);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < rounds(60) && !testing::Test::HasFailure(); ++round) {
    const std::int64_t eights = pick(0, 1) == 0 ? 8 : 1;  // whole stretches, or not
    const std::int64_t planes = pick(1, 5);
    const std::int64_t plane = eights * pick(1, 700);
    const std::int64_t group = 8 * pick(1, 40);
    const std::int64_t first = eights * pick(0, (planes * plane - 1) / eights);
    const std::int64_t n = pick(1, planes * plane - first);
    const SmoothCase c(random, kTypes[round % 4], planes, plane, group, {first, 1, n, n});
    expect_like_reference(c, round % 5 == 0 ? element_size(c.what.type) : 0);
  }
}

TEST_F(WithoutBiasCuda, InterleavedGroups) {
  Random random(74);
  for (const ElementType type : kTypes) {
    for (const std::int64_t features : {24, 19}) {  // whole stretches, and not
      const std::int64_t plane = features * 40;
      expect_like_reference({random, type, 3, plane, 40, {0, 1, 3 * plane, 0}, true});
      expect_like_reference({random, type, 3, plane, 40, {plane + 8, 1, plane + 3, 0}, true});
      expect_like_reference({random, type, 3, plane, 40, {8, 50, 8, features}, true});
    }
  }
}

TEST_F(WithoutBiasCuda, RowsBetweenOthers) {
  Random random(72);
  for (const ElementType type : kTypes) {
    // Halves of rows, as chunks have them: of whole stretches, and not; across planes; on top of
    // each other.
    expect_like_reference({random, type, 3, 512, 256, {64, 12, 64, 128}});
    expect_like_reference({random, type, 3, 512, 24, {8, 11, 40, 128}});
    expect_like_reference({random, type, 5, 111, 24, {3, 7, 20, 60}});
    expect_like_reference({random, type, 1, 64, 256, {8, 5, 24, 0}});
  }
}

// Where float16 rounds to infinity, PyTorch does.
TEST_F(WithoutBiasCuda, WhatIsNotFinite) {
  Random random(73);
  constexpr std::int64_t n = 61;
  for (const ElementType type : kTypes) {
    SmoothCase c(random, type, 1, 64, 8, {0, 1, n, n});
    std::vector<float> x(64, 1.0F);
    x[3] = std::numeric_limits<float>::quiet_NaN();
    x[5] = 65504.0F;
    x[6] = -65504.0F;
    c.source = make_source(c.what, x);
    c.steps[2] = std::numeric_limits<float>::quiet_NaN();  // a poisoned group
    c.steps[3] = 0x1p20F;                                  // subtracts more than float16 holds
    for (const Smooth function : kFunctions) {
      const std::vector<float> found = values_of(neighbours(type, n), c.actual(function));
      const std::vector<float> exact = c.expected(function);
      const std::vector<float> expected =
          values_of(neighbours(type, n), make_source(neighbours(type, n), exact));
      for (std::size_t k = 0; k < found.size(); ++k) {
        const bool overflows = type == ElementType::float16 && std::abs(exact[k]) >= 65520.0F;
        if (std::isnan(expected[k])) {
          EXPECT_TRUE(std::isnan(found[k])) << k;
        } else if (overflows) {
          EXPECT_EQ(found[k], std::copysign(std::numeric_limits<float>::infinity(), exact[k])) << k;
        } else {
          EXPECT_EQ(found[k], expected[k]) << k;
        }
      }
      EXPECT_TRUE(std::isnan(found[3]) && std::isnan(found[16]));
    }
  }
}

TEST_F(WithoutBiasCuda, PlanesThatItCannotCountAreLeftAlone) {
  const cuda::GroupRanges of = {nullptr, {256, std::int64_t{1} << 31}};
  EXPECT_FALSE(cuda::apply_without_bias(Smooth::gelu, ElementType::float32, of, {0, 1, 8, 8},
                                        nullptr, nullptr, nullptr));
}

#ifdef CINCH_CUDA_ON_HOST
TEST_F(WithoutBiasCuda, TakesFewBlocksInStreamsOfItsOwn) {
  auto* const stream = reinterpret_cast<cuda::Stream>(3000);  // NOLINT(performance-no-int-to-ptr)
  cuda::OwnStreams::add(stream, 1);
  Random random(74);
  constexpr std::int64_t n = 40000;
  cuda_on_host::kernels() = {};
  expect_like_reference({random, ElementType::bfloat16, 1, n, 256, {0, 1, n, n}}, 0, stream);
  EXPECT_LE(cuda_on_host::kernels().most_threads, 1024U);
}

TEST_F(WithoutBiasCuda, IsLoadedWithItsSourcesCodec) {
  for (const ElementType type : kTypes) {
    cuda_on_host::kernels() = {};
    const auto codec = cuda::make_device_codec({.name = "group_quant", .subtractive_dither = true});
    ASSERT_TRUE(cuda::load(*codec, neighbours(type, 512)));
    Random random(75);
    for (const Smooth function : kFunctions) {
      SmoothCase(random, type, 1, 64, 8, {0, 1, 64, 64}).actual(function);
    }
    const auto& kernels = cuda_on_host::kernels();
    EXPECT_EQ(kernels.launched.size(), 1);
    EXPECT_TRUE(std::ranges::includes(kernels.loaded, kernels.launched));
  }
}
#endif

}  // namespace
}  // namespace cinch::codecs::test
