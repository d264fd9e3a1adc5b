// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "codecs/cuda/codec.h"
#include "hooks/torch/stash/device/copied.h"
#include "hooks/torch/stash/device/in_flight.h"

namespace cinch::hooks {

/// What an encoding on a device came to, which only its data decide: on its way to the host, which
/// looks whether it is there. Immutable, thread-safe.
class EncodeOutcome final : public InFlight::Moment {
 public:
  /// Enqueues the copy of what `stream`'s work so far left at `result`, device memory, to
  /// page-locked memory of `pool`, which outlives this.
  /// @return null when there is no such memory, or the copy could not be enqueued
  static std::shared_ptr<const EncodeOutcome> follow(const codecs::cuda::Result* result,
                                                     const c10::Stream& stream, PinnedPool& pool);
  ~EncodeOutcome() override;

  /// Whether the host has it. Doesn't wait.
  bool happened() const noexcept override;
  /// The host waits for it.
  void wait() const;
  /// Bytes that the encoding took; nothing where the data were not representable, or not in fewer
  /// than `below`. @pre happened(), or wait() has returned
  std::optional<std::size_t> bytes(std::size_t below) const noexcept;

 private:
  struct OnHost {
    std::unique_ptr<PinnedPool::Piece> piece;
    std::shared_ptr<const Copied> copied;
  };
  explicit EncodeOutcome(OnHost there);

  std::unique_ptr<OnHost> there_;
  const unsigned made_after_;  // forks
};

}  // namespace cinch::hooks
