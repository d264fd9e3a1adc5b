// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cinch::policy {

/// What training needs at its peak: so much whatever the batch, and so much more by the sample.
/// Bytes.
struct MemoryNeed {
  double fixed = 0;       ///< parameters, gradients, the optimizer's state, the program itself
  double per_sample = 0;  ///< activations as they are held, and what operators work on

  double at(std::uint64_t batch) const noexcept {
    return fixed + per_sample * static_cast<double>(batch);
  }
};

/// What one step at a known batch size showed.
struct StepMemory {
  std::uint64_t batch = 0;
  double before_bytes = 0;     ///< of the process, when its first forward began
  double peak_bytes = 0;       ///< of the process, uncompressed, within the step
  double parameter_bytes = 0;  ///< of leaves that take gradients
  double optimizer_bytes = 0;  ///< its state: there from the second step on
  double raw_bytes = 0;        ///< of the stash at its peak
  double stored_bytes = 0;     ///< of the same, as they would be held
};

/// Splits what a step needed. Besides activations, what exceeds the start and the gradients is
/// taken for what operators work on, and to grow with the batch.
/// @pre batch > 0
MemoryNeed memory_need(const StepMemory& step) noexcept;

/// COMET's batch advisor (Jin et al., VLDB 2022, section 3.4): the largest power of two whose need
/// fits into `limit` less `reserve` of it, at most `most` (0: no bound). 0 when not even one sample
/// fits.
std::uint64_t advised_batch(const MemoryNeed& need, double limit, std::uint64_t most = 0,
                            double reserve = 0.05) noexcept;

/// Numbers that an optimizer of torch.optim keeps for each of the parameters' ("AdamW": 2), at most
/// and in its usual form; nothing for classes that are not known, or whose state has no fixed size.
std::optional<double> optimizer_state_ratio(std::string_view optimizer) noexcept;

}  // namespace cinch::policy
