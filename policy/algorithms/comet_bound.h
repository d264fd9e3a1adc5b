// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::policy {

/// COMET's error bound (Jin et al., VLDB 2022, Eqs. 3, 10 and 11).

/// Measurements of one convolution and its input.
struct CometLayer {
  double momentum = 0;         ///< M_avg: mean magnitude of the momentum of its weight
  double output_gradient = 0;  ///< |gY|^2
  double peak_gradient = 0;    ///< mean over samples of max |gY_n|: L
  double samples = 1;          ///< N
  double outputs = 1;          ///< K, output channels
  double nonzero = 1;          ///< R, share of the input that is not 0
};

/// sigma sqrt(3 K) / (sqrt(R) |gY|), sigma = fraction * momentum: the exact form. 0: not known.
double comet_bound_exact(const CometLayer& layer, double fraction) noexcept;

/// sigma / (a L sqrt(N R)): Eqs. 3, 10, 11, with a = 0.32 by the paper. 0: not known.
double comet_bound_paper(const CometLayer& layer, double fraction, double a) noexcept;

/// When bounds are refreshed: every W steps; W is halved (not below an eighth) when a bound moved
/// by more than a factor of 2, and back to the full W when none did.
class RefreshSchedule {
 public:
  explicit RefreshSchedule(std::uint64_t interval)
      : full_(interval), interval_(interval), next_(interval) {}

  std::uint64_t next() const noexcept { return next_; }
  std::uint64_t interval() const noexcept { return interval_; }

  /// A refresh happened at `step`. @param moved Largest factor (>= 1) by which a bound changed; 1
  /// for the first bounds.
  void refreshed(std::uint64_t step, double moved) noexcept;

 private:
  std::uint64_t full_;
  std::uint64_t interval_;
  std::uint64_t next_;
};

}  // namespace cinch::policy
