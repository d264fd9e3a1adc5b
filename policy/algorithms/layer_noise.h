// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "policy/algorithms/measured_noise.h"
#include "policy/director.h"
#include "policy/layer.h"
#include "policy/look.h"
#include "policy/policy.h"

namespace cinch::policy {

/// What is known of a layer's noise in groups and under DIVISION: assumed for its kind until trials
/// measured it, then their running mean. Pure arithmetic.
class LayerNoise {
 public:
  /// Group quantization's bits at which noise is kept; at b bits it is 1 / (2^b - 1)^2 of it.
  static constexpr int reference_bits = 2;

  explicit LayerNoise(LayerKind kind) noexcept;

  /// Of a node's trials over `layer`'s menu; those of error bounds are not its business. @return
  /// whether there was one that counts: not of 1 bit alone
  bool follow(const Look& look, const Layer& layer);

  /// How often trials were followed.
  std::uint32_t tries() const noexcept { return tries_; }

  /// The noise that `choice` makes, `hit` of it counting: nothing where it is exact.
  /// @pre it has no error bound; 1 bit is an option: takes_single
  double of(const Choice& choice, const Noise& hit) const noexcept;

  /// Whether 1 bit is an option: tried, and nothing that the guard would object to, with a margin.
  bool takes_single(const GuardSettings& guard) const noexcept { return single_.is_option(guard); }

  /// By names, for the state file; nothing where nothing was tried.
  Numbers numbers() const;
  void recall(const Numbers& numbers);

 private:
  Noise group_;     // at the reference bits
  Noise division_;  // the same of DIVISION
  // Of 1 bit: where values are few and far from the rest, it is far below 9 times that of 2 bits.
  MeasuredNoise single_;
  std::uint32_t tries_ = 0;
};

/// Whether `choice` is so many bits in groups.
bool is_grouped(const Choice& choice);

/// Whether `choice` is 1 bit in groups.
bool is_single(const Choice& choice);

/// Whether it holds block means beside the rest, as DIVISION does.
bool keeps_means(const Choice& choice);

/// Whether it has an error bound.
bool is_bounded(const Choice& choice);

}  // namespace cinch::policy
