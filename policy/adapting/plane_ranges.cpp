// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/plane_ranges.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "codecs/float_formats.h"
#include "policy/adapting/mixed_precision.h"

namespace cinch::policy {
namespace {

using codecs::ElementType;
using codecs::PlaneLayout;

float value_of(ElementType type, const void* source, std::int64_t at) noexcept {
  if (type == ElementType::float32) return static_cast<const float*>(source)[at];
  const auto bits = static_cast<const std::uint16_t*>(source)[at];
  return type == ElementType::bfloat16 ? codecs::float_of_bf16(bits) : codecs::float_of_f16(bits);
}

float squared_range(float low, float high) noexcept {
  const float range = high - low;
  return std::isfinite(range) ? range * range : 0.0F;
}

/// Squared range of `n` neighbouring floats. Eight lanes, so that compilers vectorize the loop.
float group_of_floats(const float* x, std::int64_t n) noexcept {
  constexpr std::int64_t lanes = 8;
  float low[lanes];
  float high[lanes];
  std::fill_n(low, lanes, x[0]);
  std::fill_n(high, lanes, x[0]);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t k = 0; k < lanes; ++k) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  }
  for (; i < n; ++i) {
    low[0] = std::min(low[0], x[i]);
    high[0] = std::max(high[0], x[i]);
  }
  return squared_range(*std::min_element(low, low + lanes), *std::max_element(high, high + lanes));
}

}  // namespace

std::vector<float> plane_ranges(const codecs::Description& what, const void* source, int group) {
  const PlaneLayout& layout = what.layout;
  std::vector<float> sums(static_cast<std::size_t>(layout.planes()), 0.0F);
  const std::int64_t size = layout.plane_size();
  const bool floats = what.type == ElementType::float32 && layout.is_contiguous();
  for (std::int64_t p = 0; p < layout.planes(); ++p) {
    double sum = 0;
    if (floats) {
      const float* plane = static_cast<const float*>(source) + p * size;
      for (std::int64_t i = 0; i < size; i += group) {
        sum += double{group_of_floats(plane + i, std::min<std::int64_t>(group, size - i))};
      }
      sums[static_cast<std::size_t>(p)] = static_cast<float>(sum);
      continue;
    }
    const std::int64_t start =
        p / layout.inner * layout.outer_stride + p % layout.inner * layout.inner_stride;
    float low = 0;
    float high = 0;
    std::int64_t in_group = 0;
    for (std::int64_t d = 0; d < layout.extent[0]; ++d) {
      for (std::int64_t h = 0; h < layout.extent[1]; ++h) {
        for (std::int64_t w = 0; w < layout.extent[2]; ++w) {
          const std::int64_t at =
              start + d * layout.stride[0] + h * layout.stride[1] + w * layout.stride[2];
          const float x = value_of(what.type, source, at);
          low = in_group == 0 ? x : std::min(low, x);
          high = in_group == 0 ? x : std::max(high, x);
          if (++in_group < group) continue;
          sum += double{squared_range(low, high)};
          in_group = 0;
        }
      }
    }
    if (in_group != 0) sum += double{squared_range(low, high)};
    sums[static_cast<std::size_t>(p)] = static_cast<float>(sum);
  }
  return sums;
}

std::vector<std::uint8_t> plane_bits(std::span<const float> ranges, double average) {
  std::vector<PrecisionItem> items;
  items.reserve(ranges.size());
  for (const float range : ranges) items.push_back({double{range}, 1});
  // The average is a quotient of whole numbers; its rounding error must not cost a bit.
  return allocate_bits(items, std::floor(average * static_cast<double>(ranges.size()) + 1e-6));
}

}  // namespace cinch::policy
