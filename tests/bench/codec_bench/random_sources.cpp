// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/random_sources.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "codecs/float_formats.h"

namespace cinch::bench {

using codecs::Description;
using codecs::ElementType;
using codecs::PlaneLayout;

namespace {

constexpr std::int64_t kChannels = 64;

/// Calls `next(k)` for each element k in memory order and stores the result as a T.
template <typename T, typename F>
void fill_each(std::span<std::byte> bytes, F next) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t k = 0; k < count; ++k) {
    const T value = next(static_cast<std::int64_t>(k));
    std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
  }
}

/// As fill_each, rounding floats to `type`.
template <typename F>
void fill_floats(ElementType type, std::span<std::byte> bytes, F next) {
  if (type == ElementType::float32) {
    fill_each<float>(bytes, next);
  } else if (type == ElementType::bfloat16) {
    fill_each<std::uint16_t>(bytes, [&](std::int64_t k) { return codecs::bf16_nearest(next(k)); });
  } else {
    fill_each<std::uint16_t>(bytes, [&](std::int64_t k) { return codecs::f16_nearest(next(k)); });
  }
}

}  // namespace

Description planes(ElementType type, std::int64_t height, std::int64_t width, std::int64_t bytes,
                   bool channels_last) {
  Description what;
  what.type = type;
  PlaneLayout& layout = what.layout;
  layout.extent = {1, height, width};
  const std::int64_t size = layout.plane_size();
  const std::int64_t sample = size * kChannels;
  layout.inner = kChannels;
  layout.outer = std::max<std::int64_t>(
      1, bytes / static_cast<std::int64_t>(codecs::element_size(type)) / sample);
  layout.outer_stride = sample;
  layout.inner_stride = channels_last ? 1 : size;
  const std::int64_t step = channels_last ? kChannels : 1;
  layout.stride = {size * step, width * step, step};
  return what;
}

Description rows(ElementType type, std::int64_t width, std::int64_t bytes) {
  Description what;
  what.type = type;
  const std::int64_t size = width * static_cast<std::int64_t>(codecs::element_size(type));
  what.layout = PlaneLayout::rows(std::max<std::int64_t>(1, bytes / size) * width, width);
  return what;
}

Description features(ElementType type, std::int64_t width, std::int64_t bytes) {
  constexpr std::int64_t kRows = 256;
  Description what;
  what.type = type;
  PlaneLayout& layout = what.layout;
  layout.extent = {width, 1, kRows};
  layout.stride = {1, 0, width};
  layout.outer_stride = kRows * width;
  const auto size = static_cast<std::int64_t>(codecs::element_size(type)) * layout.outer_stride;
  layout.outer = std::max<std::int64_t>(1, bytes / size);
  return what;
}

Source normal(std::string name, const Description& what) {
  return {std::move(name), what, [type = what.type](std::span<std::byte> bytes) {
            std::mt19937 random(1);
            std::normal_distribution<float> draw;
            fill_floats(type, bytes, [&](std::int64_t) { return draw(random); });
          }};
}

Source rectified(std::string name, const Description& what) {
  return {std::move(name), what, [type = what.type](std::span<std::byte> bytes) {
            std::mt19937 random(1);
            std::normal_distribution<float> draw;
            fill_floats(type, bytes, [&](std::int64_t) { return std::max(draw(random), 0.0F); });
          }};
}

Source dropout(std::string name, const Description& what) {
  return {std::move(name), what, [type = what.type](std::span<std::byte> bytes) {
            std::mt19937 random(1);
            const auto kept = [&] { return random() % 10 != 0; };
            if (type == ElementType::boolean) {
              fill_each<std::uint8_t>(
                  bytes, [&](std::int64_t) { return static_cast<std::uint8_t>(kept()); });
            } else {
              fill_floats(type, bytes, [&](std::int64_t) { return kept() ? 1 / 0.9F : 0.0F; });
            }
          }};
}

Source pool_indices(std::string name, Description what) {
  const std::array<std::int64_t, 3> extent = what.layout.extent;
  what.index_extent = {1, 2 * extent[1], 2 * extent[2]};
  return {std::move(name), what, [extent](std::span<std::byte> bytes) {
            std::mt19937 random(1);
            const auto [depth, height, width] = extent;
            fill_each<std::int64_t>(bytes, [&, height = height, width = width](std::int64_t k) {
              const std::int64_t i = k % (height * width);
              const std::int64_t h = i / width * 2 + (random() & 1U);
              return h * 2 * width + i % width * 2 + (random() & 1U);
            });
          }};
}

Source tokens(std::string name, const Description& what) {
  return {std::move(name), what, [](std::span<std::byte> bytes) {
            std::mt19937 random(1);
            fill_each<std::int64_t>(
                bytes, [&](std::int64_t) { return static_cast<std::int64_t>(random() & 255U); });
          }};
}

}  // namespace cinch::bench
