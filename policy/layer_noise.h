// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "policy/director.h"
#include "policy/layer.h"
#include "policy/look.h"
#include "policy/policy.h"

namespace cinch::policy {

/// Squared relative errors of the gradients that a node computes from a layer: those of parameters,
/// and those that it passes on to the nodes before it.
struct Noise {
  double own = 0;
  double passed = 0;
};

/// Share of a cost that counts squared errors by how large each gradient is among all of them; the
/// rest counts the relative errors of all alike, or the worst.
inline constexpr double share_by_size = 0.8;

/// Weight of a new measurement in a running mean.
inline constexpr double news = 0.3;

/// What is known of a layer's noise under each of the choices that "budget" and "auto" have:
/// assumed for its kind until trials measured it, then their running mean. Pure arithmetic.
class LayerNoise {
 public:
  /// Group quantization's bits at which noise is kept; at b bits it is 1 / (2^b - 1)^2 of it.
  static constexpr int reference_bits = 2;

  explicit LayerNoise(LayerKind kind) noexcept;

  /// Of a node's trials over `layer`'s menu. @return whether there was one that counts: not of 1
  /// bit alone
  bool follow(const Look& look, const Layer& layer);

  /// How often trials were followed.
  std::uint32_t tries() const noexcept { return tries_; }

  /// The noise that `choice` makes, `hit` of it counting: nothing where it is exact.
  /// @pre 1 bit is an option: takes_single
  double of(const Choice& choice, const Noise& hit) const noexcept;

  /// Whether 1 bit is an option: tried, and nothing that the guard would object to, with a margin.
  bool takes_single(const GuardSettings& guard) const noexcept;

  /// By names, for the state file; nothing where nothing was tried.
  Numbers numbers() const;
  void recall(const Numbers& numbers);

 private:
  Noise group_;     // at the reference bits
  Noise division_;  // the same of DIVISION
  // Of 1 bit, whose noise no formula tells from that of others: where values are few and far from
  // the rest, it is far below 9 times that of 2 bits. Nothing is assumed of it.
  Noise single_;
  double single_worst_ = -1;  // the largest squared error of a gradient; below 0 if not tried
  std::uint32_t tries_ = 0;
};

/// Whether `choice` is 1 bit in groups.
bool is_single(const Choice& choice);

/// Sets `to` where `numbers` has a usable figure of this name: finite, not negative.
void take_number(const Numbers& numbers, const char* name, double& to);

}  // namespace cinch::policy
