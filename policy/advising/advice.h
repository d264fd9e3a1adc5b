// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace cinch::policy {

/// How a policy fares in a short run of a program (docs/advise.md). Errors and noise are squared
/// sizes relative to that of the exact gradients.
struct Prospect {
  std::string policy;
  double raw_bytes = 0;        ///< of the stash at its peak
  double stored_bytes = 0;     ///< likewise
  double error = 0;            ///< of all parameters' gradients together
  double noise = 0;            ///< the mini-batch's own, of the same
  double error_by_weight = 0;  ///< mean over the weights, each relative to its own gradient
  double noise_by_weight = 0;  ///< likewise
  bool is_traced = true;       ///< whether `error` has all errors of all gradients

  double ratio() const noexcept { return stored_bytes > 0 ? raw_bytes / stored_bytes : 0; }

  /// The error as a share of the noise: of all gradients together, or of the mean weight's,
  /// whichever is more. Infinite where there is an error and no noise.
  double share_of_noise() const noexcept;
};

/// The largest share of the gradients' noise by which advised policies may put gradients off: as
/// much as batches that are a tenth smaller do. docs/advise.md has the trainings that say so.
inline constexpr double most_share_of_noise = 0.1;

/// The index of the policy of the largest ratio whose error is at most `most` of the noise; nothing
/// if there is none. Policies whose errors are not all known are left out.
std::optional<std::size_t> advised_policy(std::span<const Prospect> prospects,
                                          double most = most_share_of_noise) noexcept;

/// Time of a step under a policy, relative to the same step without Cinch. @param seconds Of the
/// step @param in_cinch Part of it; less than `seconds` @return 0 where it is not known
double relative_time(double seconds, double in_cinch) noexcept;

}  // namespace cinch::policy
