// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

namespace cinch::codecs {

/// Bytes that one sample's saved tensors take in ResNet-50 at 224 pixels: raw, and with a codec,
/// ReLU masks and max-pool offsets of 8 bits (docs/acceptance.md has the figures).
struct ResNet50 {
  /// Bytes that a codec makes of so many planes of edge x edge.
  using Held = std::function<std::int64_t(std::int64_t planes, std::int64_t edge)>;

  /// The inputs that two convolutions share are stored once, or `twice`.
  ResNet50(Held codec, bool twice) : held(std::move(codec)) {
    values(3, 224);
    values(64, 112);
    mask(64 * 112 * 112, true);
    constexpr std::int64_t pooled_elements = 64 * 56 * 56;
    raw += 8 * pooled_elements;
    stored += pooled_elements;
    values(64, 56);
    std::int64_t edge = 56;
    std::int64_t input = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const std::int64_t width = 64 << stage;
      for (int block = 0; block < std::array{3, 4, 6, 3}[stage]; ++block) {
        if (block == 0 && twice) stored += held(input, edge);
        const std::int64_t out = block == 0 && stage > 0 ? edge / 2 : edge;
        for (const std::int64_t inner : {edge, out}) {
          values(width, inner);  // a normalization's input
          values(width, inner);  // a convolution's, which is a ReLU's output
          mask(width * inner * inner, false);
        }
        input = 4 * width;
        values(input, out);
        if (block == 0) values(input, out);
        const bool pooled = stage == 3 && block == 2;
        mask(input * out * out, pooled);
        if (!pooled) values(input, out);
        edge = out;
      }
    }
    values(2048, 1);
  }

  void values(std::int64_t planes, std::int64_t edge) {
    raw += 4 * planes * edge * edge;
    stored += held(planes, edge);
  }
  /// Of a ReLU whose output is saved for its own sake `alone`.
  void mask(std::int64_t elements, bool alone) {
    if (alone) raw += 4 * elements;
    stored += elements / 8;
  }

  Held held;
  std::int64_t raw = 0;
  std::int64_t stored = 0;
};

inline double mebibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace cinch::codecs
