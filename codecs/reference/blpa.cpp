// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/blpa.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

/// The sum of `values` in the order of a chunk's elements (BlpaChunks).
double sum_in_lanes(std::span<const double> values) {
  std::array<double, BlpaChunks::kLanes> lanes = {};
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % lanes.size()] += values[i];
  for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// The sum of f(x) over a channel, in the order of BlpaChunks.
template <typename F>
double sum_over_channel(std::span<const float> channel, const BlpaChunks& chunks, F f) {
  std::vector<double> sums;
  for (std::int64_t i = 0; i < chunks.count; ++i) {
    std::vector<double> values;
    for (const float x : channel.subspan(chunks.begin(i), chunks.size(i))) values.push_back(f(x));
    sums.push_back(sum_in_lanes(values));
  }
  return sum_in_lanes(sums);
}

class BlpaReference final : public BlpaCodec {
 public:
  using BlpaCodec::BlpaCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override try {
    const PlaneLayout& layout = what.layout;
    const int bits = parameters().bits;
    std::vector<float> x(layout.elements());
    bool representable = true;
    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      x[k] = value_of(what.type, load_bits(source, offset_of(layout, k), element_size(what.type)));
      if (parameters().with_sign && x[k] < 0.0F) representable = false;
    }

    std::vector<BlpaGrid> grids;
    for (std::int64_t c = 0; c < layout.channels(); ++c) {
      grids.push_back(grid_of(what, x, c));
      representable &= grids.back() != poisoned_grid();
    }
    std::ranges::copy(std::as_bytes(std::span(grids)), out.begin());
    const bool has_signs = needs_signs(layout, out.data());
    const BlpaSections at(parameters(), layout, has_signs);
    std::fill(out.begin() + at.signs, out.begin() + at.end, std::byte{0});

    for (std::int64_t k = 0; k < layout.elements(); ++k) {
      if (has_signs) put_bits(out.subspan(at.signs), k, 1, x[k] > 0.0F);
      const BlpaGrid grid = grids[channel_of(layout, k)];
      if (grid == poisoned_grid()) continue;
      put_bits(out.subspan(at.codes), k * bits, bits,
               blpa_code(x[k], blpa_scale(grid, bits), bits));
    }
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    if (!can_decode(what, in, reads)) return false;
    const int bits = parameters().bits;
    const bool has_signs = needs_signs(what.layout, in.data());
    const BlpaSections at(parameters(), what.layout, has_signs);
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      BlpaGrid grid;
      std::memcpy(&grid, in.data() + channel_of(what.layout, k) * sizeof grid, sizeof grid);
      const unsigned code = get_bits(in.subspan(at.codes), k * bits, bits);
      bool positive = true;
      if (has_signs) {
        positive = get_bits(in.subspan(at.signs), k, 1) != 0;
      } else if (parameters().with_sign) {
        positive = blpa_middle(code, grid, bits) > 0.0F;
      }
      float x = reads == Reads::sign ? 1.0F : blpa_value(code, grid, bits);
      if (!positive) x = 0.0F;
      std::uint64_t pattern = bits_of(what.type, x);
      if (reads == Reads::values && grid == poisoned_grid()) pattern = bits_of_nan(what.type);
      store_bits(target, offset_of(what.layout, k), element_size(what.type), pattern);
    }
    return true;
  }

 private:
  static std::int64_t channel_of(const PlaneLayout& layout, std::int64_t k) {
    return k / layout.plane_size() % layout.inner;
  }

  BlpaGrid grid_of(const Description& what, std::span<const float> x, std::int64_t c) const {
    const PlaneLayout& layout = what.layout;
    std::vector<float> channel;
    for (std::int64_t o = 0; o < layout.outer; ++o) {
      const auto plane =
          x.subspan((o * layout.inner + c) * layout.plane_size(), layout.plane_size());
      channel.insert(channel.end(), plane.begin(), plane.end());
    }
    const bool holds = std::all_of(channel.begin(), channel.end(), [](float value) {
      return std::fabs(value) <= kAffineMaxMagnitude;
    });
    if (!holds) return poisoned_grid();
    if (what.channel_center != nullptr && what.channel_scale != nullptr) {
      return blpa_grid(what.channel_center[c], what.channel_scale[c], parameters().bits);
    }
    const BlpaChunks chunks(layout);
    return blpa_grid_of_sums(
        sum_over_channel(channel, chunks, [](float v) { return double{v}; }),
        sum_over_channel(channel, chunks, [](float v) { return double{v} * double{v}; }),
        layout.outer * layout.plane_size(), parameters().bits);
  }
};

}  // namespace

std::shared_ptr<const Codec> make_blpa_reference(const BlpaParameters& parameters) {
  return std::make_shared<BlpaReference>(parameters);
}

}  // namespace cinch::codecs
