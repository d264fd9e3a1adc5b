// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/window_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

using Coordinates = std::array<std::int64_t, 3>;

/// (d, h, w) of a row-major index.
Coordinates unravel(std::int64_t index, const Coordinates& extent) {
  return {index / (extent[1] * extent[2]), index / extent[2] % extent[1], index % extent[2]};
}

std::array<std::vector<std::int32_t>, 3> tables(const PlaneLayout& layout, std::int32_t value) {
  return {std::vector<std::int32_t>(layout.extent[0], value),
          std::vector<std::int32_t>(layout.extent[1], value),
          std::vector<std::int32_t>(layout.extent[2], value)};
}

class WindowIndexReference final : public WindowIndexCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override try {
    const PlaneLayout& layout = what.layout;
    const Coordinates& input = what.index_extent;
    const auto load = [&](std::int64_t k) {
      return static_cast<std::int64_t>(load_bits(source, offset_of(layout, k), 8));
    };

    auto min = tables(layout, layout.planes() == 0 ? 0 : std::numeric_limits<std::int32_t>::max());
    auto max = tables(layout, 0);
    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      const std::int64_t index = load(k);
      if (index < 0 || index >= input[0] * input[1] * input[2]) return {};
      const Coordinates from = unravel(k % layout.plane_size(), layout.extent);
      const Coordinates to = unravel(index, input);
      for (int axis = 0; axis < 3; ++axis) {
        const auto coordinate = static_cast<std::int32_t>(to[axis]);
        std::int32_t& least = min[axis][from[axis]];
        std::int32_t& most = max[axis][from[axis]];
        least = std::min(least, coordinate);
        most = std::max(most, coordinate);
      }
    }

    std::array<std::int32_t, 3> extent = {1, 1, 1};
    for (int axis = 0; axis < 3; ++axis) {
      for (std::int64_t i = 0; i < layout.extent[axis]; ++i) {
        extent[axis] = std::max(extent[axis], max[axis][i] - min[axis][i] + 1);
      }
    }
    const WindowShape shape = WindowShape::of(extent);
    if (shape.bits > kWindowMaxBits) return {};

    const std::int64_t end = encoded_size(layout, shape.bits);
    std::fill_n(out.data(), end, std::byte{0});
    shape.write(out.data());
    std::byte* next = out.data() + kWindowHeaderBytes;
    for (const std::vector<std::int32_t>& origins : min) {
      std::memcpy(next, origins.data(), 4 * origins.size());
      next += 4 * origins.size();
    }
    const std::span<std::byte> codes = out.subspan(codes_offset(layout));
    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      const Coordinates from = unravel(k % layout.plane_size(), layout.extent);
      const Coordinates to = unravel(load(k), input);
      std::int64_t code = 0;
      for (int axis = 0; axis < 3; ++axis) {
        code = code * shape.extent[axis] + (to[axis] - min[axis][from[axis]]);
      }
      put_bits(codes, k * shape.bits, shape.bits, static_cast<unsigned>(code));
    }
    return {true, static_cast<std::size_t>(end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    if (!accepts(what)) return false;
    const PlaneLayout& layout = what.layout;
    const Coordinates& input = what.index_extent;
    WindowShape shape;
    auto origins = tables(layout, 0);
    if (!read_tables(what, in, reads, shape, {origins[0], origins[1], origins[2]})) return false;
    const std::span<const std::byte> codes = in.subspan(codes_offset(layout));
    const std::int64_t last = input[0] * input[1] * input[2] - 1;
    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      const Coordinates from = unravel(k % layout.plane_size(), layout.extent);
      std::int64_t code = get_bits(codes, k * shape.bits, shape.bits);
      Coordinates to = {};
      for (int axis = 2; axis >= 0; --axis) {
        to[axis] = origins[axis][from[axis]] + code % shape.extent[axis];
        code /= shape.extent[axis];
      }
      // Only damaged bytes give an index past the end; backward must not get one.
      const std::int64_t index = (to[0] * input[1] + to[1]) * input[2] + to[2];
      store_bits(target, offset_of(layout, k), 8,
                 static_cast<std::uint64_t>(std::min(index, last)));
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_window_index_reference() {
  return std::make_shared<WindowIndexReference>();
}

}  // namespace cinch::codecs
