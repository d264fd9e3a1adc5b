// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codecs/codec.h"

namespace cinch::policy {

/// What an adaptive policy says about the activations of one layer, in place of a static
/// algorithm's parameters. What reads signs, indices and statistics is not its business: need.h
/// decides about those.
struct Choice {
  enum class Action : std::uint8_t {
    keep,      ///< hold it as it is
    lossless,  ///< by codecs::kLosslessFloats, or keep where that is no smaller
    encode,    ///< by `spec`
  };
  Action action = Action::keep;
  codecs::CodecSpec spec = {};  ///< meaningful for `encode`
  /// Above 0: `spec` is group_quant, and its planes share this many bits an element on average, in
  /// 1 to 8 bits each, by their ranges at the time of encoding (ActNN's stage 1).
  double mixed_bits = 0;
  /// Error bounds by channel for fixed_point; null: spec.error_bound for all.
  std::shared_ptr<const std::vector<float>> channel_bounds = nullptr;
  /// What is held of a CUDA tensor moves to the host's memory, unless a rule or another reader's
  /// says otherwise.
  bool offload = false;
};

inline bool operator==(const Choice& a, const Choice& b) noexcept {
  const bool same_bounds =
      a.channel_bounds == b.channel_bounds ||
      (a.channel_bounds && b.channel_bounds && *a.channel_bounds == *b.channel_bounds);
  return a.action == b.action && a.mixed_bits == b.mixed_bits && same_bounds &&
         a.offload == b.offload && (a.action != Choice::Action::encode || a.spec == b.spec);
}

}  // namespace cinch::policy
