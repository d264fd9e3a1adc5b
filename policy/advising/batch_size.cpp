// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/batch_size.h"

#include <algorithm>
#include <utility>

namespace cinch::policy {

MemoryNeed memory_need(const StepMemory& step) noexcept {
  const double gradients = step.parameter_bytes;
  const double working = step.peak_bytes - step.before_bytes - gradients - step.raw_bytes;
  MemoryNeed need;
  need.fixed = step.before_bytes + gradients + step.optimizer_bytes;
  need.per_sample = (step.stored_bytes + std::max(working, 0.0)) / static_cast<double>(step.batch);
  return need;
}

std::uint64_t advised_batch(const MemoryNeed& need, double limit, std::uint64_t most,
                            double reserve) noexcept {
  constexpr std::uint64_t largest = std::uint64_t{1} << 40;  // for needs that do not grow
  const std::uint64_t bound = most == 0 ? largest : std::min(most, largest);
  const double usable = limit * (1 - reserve);
  std::uint64_t batch = 0;
  for (std::uint64_t next = 1; next <= bound && need.at(next) <= usable; next *= 2) batch = next;
  return batch;
}

std::optional<double> optimizer_state_ratio(std::string_view optimizer) noexcept {
  constexpr std::pair<std::string_view, double> known[] = {
      {"ASGD", 1},  {"Adadelta", 2}, {"Adagrad", 1}, {"Adam", 2},  {"AdamW", 2}, {"Adamax", 2},
      {"NAdam", 2}, {"RAdam", 2},    {"RMSprop", 1}, {"Rprop", 2}, {"SGD", 1}};
  for (const auto& [name, ratio] : known) {
    if (name == optimizer) return ratio;
  }
  return std::nullopt;
}

}  // namespace cinch::policy
