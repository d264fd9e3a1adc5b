// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/window_index.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

using Extent = std::array<std::int64_t, 3>;

struct Pool {
  Extent kernel = {1, 1, 1};
  Extent stride = {1, 1, 1};
  Extent padding = {0, 0, 0};
  Extent dilation = {1, 1, 1};
  bool ceil_mode = false;
};

/// PyTorch's pooling output extent.
std::int64_t output_extent(const Pool& pool, std::int64_t input, int axis) {
  const std::int64_t room =
      input + 2 * pool.padding[axis] - pool.dilation[axis] * (pool.kernel[axis] - 1) - 1;
  const std::int64_t stride = pool.stride[axis];
  std::int64_t extent = (room + (pool.ceil_mode ? stride - 1 : 0)) / stride + 1;
  // A window may not begin in the right padding.
  if (pool.ceil_mode && (extent - 1) * stride >= input + pool.padding[axis]) --extent;
  return extent;
}

struct Indices {
  Description what;
  Bytes source;
};

/// Max-pool's indices of random planes, the naive way.
Indices max_pool(const Pool& pool, std::int64_t planes, Extent input, bool last_format) {
  Indices made;
  Extent output;
  for (int axis = 0; axis < 3; ++axis) output[axis] = output_extent(pool, input[axis], axis);
  made.what.type = ElementType::int64;
  made.what.layout = last_format ? channels_last(1, planes, output) : contiguous(planes, output);
  made.what.index_extent = input;
  made.source.resize(source_bytes(made.what));
  std::mt19937 random(4);
  std::vector<std::uint32_t> x(input[0] * input[1] * input[2]);
  for (std::int64_t k = 0; k < made.what.layout.elements(); ++k) {
    if (k % made.what.layout.plane_size() == 0) {
      for (auto& v : x) v = static_cast<std::uint32_t>(random());
    }
    const std::int64_t i = k % made.what.layout.plane_size();
    const Extent at = {i / (output[1] * output[2]), i / output[2] % output[1], i % output[2]};
    std::int64_t best = -1;
    for (std::int64_t n = 0; n < pool.kernel[0] * pool.kernel[1] * pool.kernel[2]; ++n) {
      const Extent in_window = {n / (pool.kernel[1] * pool.kernel[2]),
                                n / pool.kernel[2] % pool.kernel[1], n % pool.kernel[2]};
      std::int64_t index = 0;
      bool inside = true;
      for (int axis = 0; axis < 3; ++axis) {
        const std::int64_t c = at[axis] * pool.stride[axis] - pool.padding[axis] +
                               in_window[axis] * pool.dilation[axis];
        inside = inside && c >= 0 && c < input[axis];
        index = index * input[axis] + c;
      }
      if (inside && (best < 0 || x[index] > x[best])) best = index;
    }
    reference::store_bits(made.source.data(), reference::offset_of(made.what.layout, k), 8,
                          static_cast<std::uint64_t>(best));
  }
  return made;
}

void expect_round_trip(const Pool& pool, std::int64_t planes, Extent input, int bits) {
  for (const bool last_format : {false, true}) {
    const Indices made = max_pool(pool, planes, input, last_format);
    const Extent& output = made.what.layout.extent;
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec({.name = "window_index"}, engine);
      const Bytes bytes = encode(*codec, made.what, made.source, {}, two_threads);
      const std::int64_t expected = kWindowHeaderBytes + 4 * (output[0] + output[1] + output[2]) +
                                    bytes_for_bits(made.what.layout.elements() * bits);
      ASSERT_EQ(bytes.size(), static_cast<std::size_t>(expected));
      ASSERT_LE(bytes.size(), codec->encoded_bytes(made.what));
      EXPECT_EQ(decode(*codec, made.what, bytes, Reads::values, two_threads), made.source);
    }
  }
}

TEST(WindowIndex, PoolingPatterns) {
  expect_round_trip({.kernel = {1, 2, 2}, .stride = {1, 2, 2}}, 40, {1, 28, 36}, 2);
  expect_round_trip({.kernel = {1, 3, 3}, .stride = {1, 2, 2}, .padding = {0, 1, 1}}, 24,
                    {1, 29, 31}, 4);
  // Offsets run to dilation * (kernel - 1), whether or not any lies between.
  expect_round_trip({.kernel = {1, 3, 3}, .dilation = {1, 2, 2}}, 24, {1, 14, 14}, 5);
  expect_round_trip({.kernel = {1, 1, 3}, .stride = {1, 1, 3}}, 100, {1, 1, 51}, 2);
  expect_round_trip({.kernel = {2, 2, 2}, .stride = {2, 2, 2}}, 50, {6, 8, 10}, 3);
  expect_round_trip({.kernel = {1, 3, 3}, .stride = {1, 2, 2}, .ceil_mode = true}, 30, {1, 14, 17},
                    4);
  expect_round_trip({.kernel = {1, 2, 2}, .stride = {1, 2, 2}, .ceil_mode = true}, 30, {1, 7, 9},
                    2);
  expect_round_trip({}, 3, {1, 5, 5}, 0);
  expect_round_trip({.kernel = {1, 7, 7}}, 200, {1, 7, 7}, 6);
}

// Encoding looks at a few planes first; what only another one shows must not be lost.
TEST(WindowIndex, OneIndexMayWidenTheWindows) {
  const Pool pool = {.kernel = {1, 2, 2}, .stride = {1, 3, 3}};
  const Indices made = max_pool(pool, 400, {1, 48, 48}, false);
  const auto codec = make_codec({.name = "window_index"});
  const auto reference = make_codec({.name = "window_index"}, Engine::reference);
  const std::size_t narrow = encode(*codec, made.what, made.source).size();
  for (const std::int64_t plane : {1, 57, 398}) {
    Bytes source = made.source;
    // The third column of the window at (2, 3).
    reference::store_bits(source.data(), plane * 256 + 2 * 16 + 3, 8, 6 * 48 + 11);
    const Bytes bytes = encode(*codec, made.what, source, {}, two_threads);
    EXPECT_GT(bytes.size(), narrow);
    EXPECT_EQ(bytes, encode(*reference, made.what, source));
    EXPECT_EQ(decode(*codec, made.what, bytes), source);
  }
}

TEST(WindowIndex, WiderThanEightBitsIsNotRepresentable) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const Indices made = max_pool({.kernel = {1, 20, 20}}, 3000, {1, 20, 20}, false);
    EXPECT_TRUE(
        encode(*make_codec({.name = "window_index"}, engine), made.what, made.source).empty());
  }
}

TEST(WindowIndex, IndicesOutsideThePlaneAreNotRepresentable) {
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec({.name = "window_index"}, engine);
    for (const std::int64_t bad :
         {std::int64_t{-1}, std::int64_t{64}, std::int64_t{1} << 32, std::int64_t{1} << 63}) {
      Indices made = max_pool({.kernel = {1, 2, 2}, .stride = {1, 2, 2}}, 3, {1, 8, 8}, false);
      std::memcpy(made.source.data() + 8 * 20, &bad, 8);
      EXPECT_TRUE(encode(*codec, made.what, made.source).empty()) << bad;
    }
  }
}

TEST(WindowIndex, PlanesOfMoreThan31BitsAreRefused) {
  Description what{.type = ElementType::int64,
                   .layout = contiguous(1, {1, 2, 2}),
                   .index_extent = {1, 1 << 16, 1 << 15}};
  EXPECT_FALSE(make_codec({.name = "window_index"})->accepts(what));
  what.index_extent[1] -= 1;
  EXPECT_TRUE(make_codec({.name = "window_index"})->accepts(what));
}

}  // namespace
}  // namespace cinch::codecs::test
