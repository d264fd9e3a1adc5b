// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/appraisal.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cinch::hooks {
namespace {

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

}  // namespace

std::optional<AppraisalSteps> wanted_appraisal() noexcept {
  const char* wanted = std::getenv("CINCH_APPRAISE");
  if (wanted == nullptr) return std::nullopt;
  unsigned long long warm_up = 0;
  unsigned long long timed = 0;
  unsigned long long compared = 0;
  if (std::sscanf(wanted, "%llu,%llu,%llu", &warm_up, &timed, &compared) != 3) return std::nullopt;
  return AppraisalSteps{warm_up, timed, compared};
}

void Appraisal::begin_growth(std::uint64_t optimizer_steps, const Statistics& statistics,
                             double now) {
  const std::lock_guard lock(mutex_);
  const bool same_step = step_ != 0 && optimizer_steps != 0 && optimizer_steps == steps_seen_;
  if (same_step || step_ > steps_.all()) return;
  steps_seen_ = optimizer_steps;
  const bool was_timed = is_measuring_time();
  ++step_;
  const Clock clock = {now, to_seconds(statistics.nanoseconds_spent()),
                       to_seconds(statistics.nanoseconds_adapting())};
  if (is_measuring_time() && !was_timed) began_ = clock;
  if (was_timed && !is_measuring_time()) {
    spent_ = {clock.now - began_.now, clock.in_cinch - began_.in_cinch,
              clock.adapting - began_.adapting};
  }
  compares_ = step_ > steps_.warm_up + steps_.timed && step_ <= steps_.all();
}

void Appraisal::measure(std::uint64_t raw_bytes, std::uint64_t stored_bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_measuring_time() || raw_bytes < raw_bytes_) return;
  raw_bytes_ = raw_bytes;
  stored_bytes_ = stored_bytes;
}

void Appraisal::saw_gradient(const void* parameter, const MeasuredGradient& gradient) {
  const std::lock_guard lock(mutex_);
  if (!compares()) return;
  Sums& sums = gradients_[parameter];
  sums.elements = gradient.elements;
  sums.is_weight = gradient.is_weight;
  sums.is_traced = sums.is_traced && gradient.is_traced;
  saw_last_ = saw_last_ || step_ == steps_.all();
  // A loss scale that was too large says nothing of errors.
  if (!std::isfinite(gradient.size) || !std::isfinite(gradient.error)) return;
  sums.size += gradient.size;
  sums.error += gradient.error;
  if (!(gradient.change >= 0) || !std::isfinite(gradient.change)) return;
  sums.changed_size += gradient.size;
  sums.change += gradient.change;
}

bool Appraisal::take_done() {
  const std::lock_guard lock(mutex_);
  return step_ > steps_.all() && !std::exchange(done_taken_, true);
}

void Appraisal::fill(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  telemetry::Report::Appraisal& row = report.appraisal.emplace_back();
  row.measured = step_ > steps_.all() || saw_last_;
  row.steps = step_;
  row.raw_bytes = raw_bytes_;
  row.stored_bytes = stored_bytes_;
  // A round of looks and trials is rare in a long training.
  row.seconds = spent_.now - spent_.adapting;
  row.seconds_in_cinch = spent_.in_cinch - spent_.adapting;
  Sums all;
  std::size_t weights = 0;
  for (const auto& [parameter, sums] : gradients_) {
    row.gradients += sums.elements;
    if (!sums.is_traced) row.untraced_gradients += sums.elements;
    all.size += sums.size;
    all.error += sums.error;
    all.changed_size += sums.changed_size;
    all.change += sums.change;
    if (!sums.is_weight) continue;
    ++weights;
    row.error_by_weight += share(sums.error, sums.size);
    row.noise_by_weight += share(sums.change, sums.changed_size) / 2;
  }
  row.gradient_error = share(all.error, all.size);
  row.gradient_noise = share(all.change, all.changed_size) / 2;
  if (weights == 0) return;
  row.error_by_weight /= static_cast<double>(weights);
  row.noise_by_weight /= static_cast<double>(weights);
}

}  // namespace cinch::hooks
