// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codecs/codec.h"

namespace cinch::policy {

/// How an adaptive policy holds the activations of one layer; takes the place of a static
/// algorithm's parameters. Does not apply to operands that backward reads as signs, indices or
/// statistics: need.h decides about those.
struct Choice {
  enum class Action : std::uint8_t {
    keep,      ///< hold it as it is
    lossless,  ///< encode by codecs::kLosslessFloats, or keep where that is no smaller
    encode,    ///< by `spec`
  };
  Action action = Action::keep;
  codecs::CodecSpec spec = {};  ///< meaningful for `encode`
  /// Above 0: `spec` is group_quant, and its planes have this many bits an element on average. Each
  /// plane gets 1 to 8 bits by its ranges at the time of encoding (ActNN's stage 1).
  double mixed_bits = 0;
  /// Error bounds by channel for fixed_point; null: spec.error_bound for all.
  std::shared_ptr<const std::vector<float>> channel_bounds = nullptr;
  /// Move the held bytes of a CUDA tensor to the host's memory, unless a rule for one of its uses
  /// forbids that.
  bool offload = false;
  /// Hold a recipe instead (docs/derived.md) wherever one is proved and its sources are at hand.
  bool derived = false;
};

inline bool operator==(const Choice& a, const Choice& b) noexcept {
  const bool same_bounds =
      a.channel_bounds == b.channel_bounds ||
      (a.channel_bounds && b.channel_bounds && *a.channel_bounds == *b.channel_bounds);
  return a.action == b.action && a.mixed_bits == b.mixed_bits && same_bounds &&
         a.offload == b.offload && a.derived == b.derived &&
         (a.action != Choice::Action::encode || a.spec == b.spec);
}

}  // namespace cinch::policy
