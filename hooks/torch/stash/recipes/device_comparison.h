// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "hooks/torch/stash/device/result_pool.h"
#include "hooks/torch/stash/device/stream_work.h"
#include "hooks/torch/stash/recipes/proofs.h"

namespace cinch::hooks {

/// A comparison of values that a CUDA device makes. The host does not wait: it asks
/// for the outcome when the next recipe of the kind is made.
class DeviceComparison final : public Proofs::Awaited {
 public:
  /// Enqueues the comparison of two tensors of one type, without gaps and of one dimension, on
  /// `stream`, the current one. @param recipe What `computed` was computed by
  /// @param near_serves Whether to look for nearness where bits differ
  /// @return null when there is no page-locked memory for the outcome, or the copy was refused
  /// @throws c10::Error when there is no memory @pre BelowProgram
  static std::shared_ptr<const DeviceComparison> enqueue(const Recipe& recipe,
                                                         const at::Tensor& computed,
                                                         const at::Tensor& actual, bool near_serves,
                                                         const c10::Stream& stream);
  ~DeviceComparison() override;
  DeviceComparison(const DeviceComparison&) = delete;
  DeviceComparison& operator=(const DeviceComparison&) = delete;

  std::optional<Proofs::Comparison> outcome() const noexcept override;

 private:
  DeviceComparison(codecs::cuda::Result* outcome, StreamWork work)
      : outcome_(outcome), work_(std::move(work)) {}

  codecs::cuda::Result* const outcome_;  // its first byte is the Proofs::Comparison
  const StreamWork work_;
};

}  // namespace cinch::hooks
