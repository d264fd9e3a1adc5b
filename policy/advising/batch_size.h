// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cinch::policy {

/// Peak memory of training in bytes: a fixed part, and a part for each sample of the batch.
struct MemoryNeed {
  double fixed = 0;       ///< parameters, gradients, the optimizer's state, the program itself
  double per_sample = 0;  ///< activations as held, and the operators' working memory

  double at(std::uint64_t batch) const noexcept {
    return fixed + per_sample * static_cast<double>(batch);
  }
};

/// Measurements of one step at a known batch size, in bytes.
struct StepMemory {
  std::uint64_t batch = 0;
  double before_bytes = 0;     ///< of the process when its first forward began
  double peak_bytes = 0;       ///< of the process within the step, uncompressed
  double parameter_bytes = 0;  ///< of leaves that take gradients
  double optimizer_bytes = 0;  ///< the optimizer's state, which exists from the second step on
  double raw_bytes = 0;        ///< of the stash at its peak
  double stored_bytes = 0;     ///< of the same, as a policy would hold it
};

/// Splits the memory of a step into its two parts. Memory above the start, the gradients and the
/// raw activations counts as the operators' working memory, assumed to grow with the batch.
/// @pre batch > 0
MemoryNeed memory_need(const StepMemory& step) noexcept;

/// COMET's batch advisor (Jin et al., VLDB 2022, section 3.4): the largest power of two, at most
/// `most` (0: no bound), whose need fits into `limit * (1 - reserve)`. 0 when not even one sample
/// fits.
std::uint64_t advised_batch(const MemoryNeed& need, double limit, std::uint64_t most = 0,
                            double reserve = 0.05) noexcept;

/// The most state elements that a torch.optim class in its usual form keeps for each parameter
/// element ("AdamW": 2); nothing for unknown classes and those whose state has no fixed size.
std::optional<double> optimizer_state_ratio(std::string_view optimizer) noexcept;

}  // namespace cinch::policy
