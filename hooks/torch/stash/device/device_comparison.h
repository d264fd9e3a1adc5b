// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include "hooks/torch/stash/device/result_pool.h"
#include "hooks/torch/stash/device/stream_work.h"
#include "hooks/torch/stash/proofs.h"

namespace cinch::hooks {

/// A comparison of memory, bit by bit, that a CUDA device makes. The host does not wait: it asks
/// for the outcome when the next recipe of the kind is made.
class DeviceComparison final : public Proofs::Awaited {
 public:
  /// Enqueues the comparison of `bytes`, an even number, on `stream`, the current one.
  /// @return null when there is no page-locked memory for the outcome, or the copy was refused
  /// @throws c10::Error when there is no memory @pre BelowProgram
  static std::shared_ptr<const DeviceComparison> enqueue(const void* one, const void* other,
                                                         std::size_t bytes,
                                                         const c10::Stream& stream);
  ~DeviceComparison() override;
  DeviceComparison(const DeviceComparison&) = delete;
  DeviceComparison& operator=(const DeviceComparison&) = delete;

  std::optional<bool> are_equal() const noexcept override;

 private:
  DeviceComparison(codecs::cuda::Result* differ, StreamWork work)
      : differ_(differ), work_(std::move(work)) {}

  codecs::cuda::Result* const differ_;  // its first byte is the outcome
  const StreamWork work_;
};

}  // namespace cinch::hooks
