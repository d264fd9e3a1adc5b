// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "policy/adapting/director.h"
#include "policy/adapting/layer.h"
#include "policy/adapting/look.h"
#include "policy/algorithms/measured_noise.h"
#include "policy/policy.h"

namespace cinch::policy {

/// A layer's noise under group quantization and under DIVISION: assumed by the layer's kind until
/// trials measure it, then the running mean of trials. Pure arithmetic.
class LayerNoise {
 public:
  /// The noise is stored for this many bits and stochastic rounding. At b bits it is proportional
  /// to 1 / (2^b - 1)^2, and subtractive dithering halves it.
  static constexpr int reference_bits = 2;

  explicit LayerNoise(LayerKind kind) noexcept;

  /// Takes a node's trials over `layer`'s menu. @return whether a trial of more than 1 bit counted
  bool follow(const Look& look, const Layer& layer);

  /// How often follow() returned true.
  std::uint32_t tries() const noexcept { return tries_; }

  /// The noise of `choice`, weighted by `hit`; 0 where the choice is exact.
  /// @pre if `choice` is 1 bit, takes_single() holds
  double of(const Choice& choice, const Noise& hit) const noexcept;

  /// Whether 1 bit is an option: tried, and its errors within the guard's limit, with a margin.
  bool takes_single(const GuardSettings& guard) const noexcept { return single_.is_option(guard); }

  /// The figures for the state file; none if nothing was tried.
  Numbers numbers() const;
  void recall(const Numbers& numbers);

 private:
  Noise group_;     // for the reference
  Noise division_;  // the same for DIVISION
  // For 1 bit: where a few values lie far from the rest, far below 9 times the noise of 2 bits.
  MeasuredNoise single_;
  std::uint32_t tries_ = 0;
};

/// Whether `choice` is 1 bit in groups.
bool is_single(const Choice& choice);

/// Whether `choice` holds block means beside residuals, as DIVISION does.
bool keeps_means(const Choice& choice);

}  // namespace cinch::policy
