// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "codecs/cuda/codec.h"
#include "hooks/torch/stash/device/copied.h"
#include "hooks/torch/stash/device/in_flight.h"

namespace cinch::hooks {

/// The outcome of an encoding on a device whose size is not known beforehand: its encoded size, or
/// that the data were not representable. The device copies it to the host, which asks whether it
/// has arrived. Immutable, thread-safe.
class EncodeOutcome final : public InFlight::Moment {
 public:
  /// Enqueues, behind `stream`'s work so far, the copy of `*result` (device memory) to page-locked
  /// memory of `pool`, which must outlive this.
  /// @return null when there is no such memory, or the copy could not be enqueued
  static std::shared_ptr<const EncodeOutcome> follow(const codecs::cuda::Result* result,
                                                     const c10::Stream& stream, PinnedPool& pool);
  ~EncodeOutcome() override;

  /// Whether the outcome has arrived. Doesn't wait.
  bool happened() const noexcept override;
  /// The host waits until it has arrived.
  void wait() const;
  /// The encoded size; nothing where the data were not representable in fewer than `below` bytes.
  /// @pre happened(), or wait() has returned
  std::optional<std::size_t> bytes(std::size_t below) const noexcept;

 private:
  struct OnHost {
    std::unique_ptr<PinnedPool::Piece> piece;
    std::shared_ptr<const Copied> copied;
  };
  explicit EncodeOutcome(OnHost there);

  std::unique_ptr<OnHost> there_;
  const unsigned made_after_;  // so many forks
};

}  // namespace cinch::hooks
