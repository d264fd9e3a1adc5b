// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "codecs/cuda/codec.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/device/result_pool.h"
#include "hooks/torch/stash/device/stream_work.h"

namespace cinch::hooks {

/// The outcome of an encoding on a device whose size is not known beforehand: its encoded size, or
/// that the data were not representable. The encoding itself writes it to the host's memory, before
/// its last kernel is done. Asking whether it has arrived makes no call of CUDA's. Thread-safe, but
/// for what the entry's mutex guards: enqueued(), give_up() and read_by().
class EncodeOutcome final : public InFlight::Moment {
 public:
  /// For an encoding that will be enqueued on `stream`. The pool must outlive it.
  /// @return null when there is no page-locked memory for it
  static std::shared_ptr<EncodeOutcome> make(ResultPool& pool, const c10::Stream& stream);
  ~EncodeOutcome() override;
  EncodeOutcome(const EncodeOutcome&) = delete;
  EncodeOutcome& operator=(const EncodeOutcome&) = delete;

  /// What the encoding has to write.
  codecs::cuda::Result* result() const noexcept { return pending_.result; }
  /// Notes that the encoding was enqueued, so that the outcome will arrive.
  void enqueued() noexcept { pending_.comes = true; }
  /// Notes that only some of the encoding may have been enqueued.
  void give_up();
  /// Notes that `work` reads the result.
  void read_by(StreamWork work) { pending_.works.push_back(std::move(work)); }

  /// Whether the outcome has arrived. Doesn't wait; false in a forked child.
  bool happened() const noexcept override;
  /// The host waits until it has arrived, or never will.
  /// @pre the calling thread does not capture the encoding's stream
  void wait() const override;
  /// The encoded size; nothing where the data were not representable in fewer than `below` bytes.
  /// @pre happened(), or wait() has returned
  std::optional<std::size_t> bytes(std::size_t below) const noexcept;

 private:
  EncodeOutcome(ResultPool& pool, codecs::cuda::Result* result, const c10::Stream& stream)
      : pool_(pool), stream_(stream), pending_{result} {}

  ResultPool& pool_;
  const c10::Stream stream_;
  ResultPool::Pending pending_;
  const unsigned made_after_ = forks_before();
};

}  // namespace cinch::hooks
