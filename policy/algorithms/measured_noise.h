// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "policy/adapting/director.h"
#include "policy/adapting/look.h"
#include "policy/policy.h"

namespace cinch::policy {

/// Squared relative errors of the gradients that a node computes from a layer: `own` of parameters'
/// gradients, `passed` of those that it passes on to the nodes before it in the forward.
struct Noise {
  double own = 0;
  double passed = 0;
};

/// Share of a cost in which each gradient's squared error counts by the gradient's size among all;
/// in the rest all relative errors count alike, or only the worst counts.
inline constexpr double share_by_size = 0.8;

/// Weight of a new measurement in a running mean.
inline constexpr double news = 0.3;

/// Whether `trial` was made and its errors are finite.
bool counts(const Look::Trial& trial) noexcept;

/// Moves `noise` by `weight` of the way to `factor` times the errors of `trial`.
/// @pre counts(trial)
void mix(Noise& noise, const Look::Trial& trial, double factor, double weight) noexcept;

/// Sets `to` if `numbers` has a number of this name that is finite and not negative.
void take_number(const Numbers& numbers, const std::string& name, double& to);

/// The noise of a choice that no formula derives from the noise of others: a running mean of its
/// own trials. Nothing is assumed before the first.
class MeasuredNoise {
 public:
  /// @pre counts(trial)
  void follow(const Look::Trial& trial) noexcept;

  bool was_tried() const noexcept { return worst_ >= 0; }

  /// The noise, weighted by `hit`. @pre was_tried()
  double of(const Noise& hit) const noexcept {
    return hit.own * noise_.own + hit.passed * noise_.passed;
  }

  /// Whether the choice is an option: tried, its errors within the guard's limit, with a margin.
  bool is_option(const GuardSettings& guard) const noexcept;

  /// Adds its figures under names that begin with `prefix`, for the state file; none if not tried.
  void add_numbers(const std::string& prefix, Numbers& numbers) const;
  /// Restores its figures if all are there and usable.
  void recall(const std::string& prefix, const Numbers& numbers);

 private:
  Noise noise_;
  double worst_ = -1;  // the largest squared error of a gradient; below 0 if not tried
};

}  // namespace cinch::policy
