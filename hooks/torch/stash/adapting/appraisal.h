// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "agent/telemetry/report.h"
#include "hooks/torch/stash/figures/statistics.h"

namespace cinch::hooks {

/// The steps of a run that appraises the policy in force, one kind after the other.
struct AppraisalSteps {
  std::uint64_t warm_up = 0;   ///< policies adapt; nothing is measured
  std::uint64_t timed = 0;     ///< bytes and time are measured
  std::uint64_t compared = 0;  ///< the errors of the gradients are measured, which takes time

  std::uint64_t all() const noexcept { return warm_up + timed + compared; }
};

/// Of CINCH_APPRAISE, "20,10,10"; nothing if that is not set or is no such text.
std::optional<AppraisalSteps> wanted_appraisal() noexcept;

/// Measurements of a parameter's gradient in one backward: squared sizes.
struct MeasuredGradient {
  std::uint64_t elements = 0;
  bool is_weight = false;  ///< of more than one dimension
  /// Whether all errors since the loss are in `error`, not only those behind an operator that can't
  /// be run twice.
  bool is_traced = false;
  double size = 0;     ///< |g|^2, g the exact gradient
  double error = 0;    ///< |g' - g|^2, g' the gradient that the program gets
  double change = -1;  ///< |g - h|^2, h the exact gradient of the backward before; below 0: none
};

/// Measures what the policy in force does to a training: bytes at the peak, time, and the errors of
/// all parameters' gradients beside the mini-batch's own noise (docs/advise.md). Thread-safe; its
/// lock may be taken under the stash's.
class Appraisal {
 public:
  explicit Appraisal(const AppraisalSteps& steps) : steps_(steps) {}
  Appraisal(const Appraisal&) = delete;
  Appraisal& operator=(const Appraisal&) = delete;

  /// A growth begins, of a new step if the optimizer has stepped (or never does).
  void begin_growth(std::uint64_t optimizer_steps, const Statistics& statistics, double now);

  /// Whether this step's gradients are compared with exact ones.
  bool compares() const noexcept { return compares_.load(std::memory_order_relaxed); }

  /// A backward begins, and the stash holds these bytes.
  void measure(std::uint64_t raw_bytes, std::uint64_t stored_bytes);

  void saw_gradient(const void* parameter, const MeasuredGradient& gradient);

  /// Whether all steps are over. Returns true only once.
  bool take_done();

  /// Adds the row of `appraisal`.
  void fill(telemetry::Report& report) const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  /// Sums over the backwards that were compared.
  struct Sums {
    std::uint64_t elements = 0;
    bool is_weight = false;
    bool is_traced = true;
    double size = 0;
    double error = 0;
    double changed_size = 0;  ///< sizes of the gradients that `change` belongs to
    double change = 0;
  };
  struct Clock {
    double now = 0;
    double in_cinch = 0;
    double adapting = 0;
  };

  bool is_measuring_time() const noexcept {
    return step_ > steps_.warm_up && step_ <= steps_.warm_up + steps_.timed;
  }

  const AppraisalSteps steps_;
  std::atomic<bool> compares_{false};
  mutable std::mutex mutex_;
  std::uint64_t step_ = 0;        // the current one, from 1
  std::uint64_t steps_seen_ = 0;  // the optimizer's, when step_ began
  Clock began_;                   // when the timed steps did
  Clock spent_;                   // in them
  std::uint64_t raw_bytes_ = 0;   // at the peak of the timed steps
  std::uint64_t stored_bytes_ = 0;
  bool saw_last_ = false;  // gradients of the last step
  bool done_taken_ = false;
  std::unordered_map<const void*, Sums> gradients_;
};

}  // namespace cinch::hooks
