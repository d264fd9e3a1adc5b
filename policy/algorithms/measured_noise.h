// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "policy/director.h"
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

/// Whether `trial` was made and came to numbers.
bool counts(const Look::Trial& trial) noexcept;

/// Moves `noise` by `weight` of the way to `factor` times what `trial` found. @pre counts(trial)
void mix(Noise& noise, const Look::Trial& trial, double factor, double weight) noexcept;

/// Sets `to` where `numbers` has a usable figure of this name: finite, not negative.
void take_number(const Numbers& numbers, const std::string& name, double& to);

/// The noise of a choice that no formula tells from that of others, so that nothing is assumed of
/// it: what its own trials found, as a running mean.
class MeasuredNoise {
 public:
  /// @pre counts(trial)
  void follow(const Look::Trial& trial) noexcept;

  bool was_tried() const noexcept { return worst_ >= 0; }

  /// `hit` of it counting. @pre was_tried()
  double of(const Noise& hit) const noexcept {
    return hit.own * noise_.own + hit.passed * noise_.passed;
  }

  /// Whether the choice is an option: tried, and nothing that the guard would object to, with a
  /// margin.
  bool is_option(const GuardSettings& guard) const noexcept;

  /// Its figures under names that begin with `prefix`, for the state file; none if not tried.
  void add_numbers(const std::string& prefix, Numbers& numbers) const;
  /// Takes them up again where all are there and usable.
  void recall(const std::string& prefix, const Numbers& numbers);

 private:
  Noise noise_;
  double worst_ = -1;  // the largest squared error of a gradient; below 0 if not tried
};

}  // namespace cinch::policy
