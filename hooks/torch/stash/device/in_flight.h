// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace cinch::hooks {

/// Back-pressure: how many bytes of each CUDA device wait for a moment of its work before they are
/// free, however far the host runs ahead of the device. The host never waits: it asks.
/// Thread-safe.
///
/// Sources wait for the side stream to encode them: what finds no room is left to the stream that
/// they were computed in, where they are free for the program's next tensor at once. And what was
/// encoded to a size that only its data decide waits for that size: what finds no room is encoded
/// later.
class InFlight {
 public:
  /// A moment in a stream of a device.
  struct Moment {
    virtual ~Moment() = default;
    /// Whether it has come. Doesn't wait.
    virtual bool happened() const noexcept = 0;
  };

  /// Whether `bytes` more may be under way on a device when `most` may in all; whatever is alone
  /// may. If so the caller then tells `enqueued`, whatever became of it.
  bool begin(int device, std::size_t bytes, std::uint64_t most);

  /// Whether begin() would say so.
  bool has_room(int device, std::size_t bytes, std::uint64_t most);

  /// What begin() allowed is free once the moment has come, and those told before; null: nothing
  /// was enqueued.
  void enqueued(int device, std::size_t bytes, std::shared_ptr<const Moment> moment) noexcept;

  /// Counts what has happened meanwhile, which the others do when they have no room only.
  void look(int device);

  struct Figures {
    std::uint64_t most_bytes = 0;  ///< that were under way at once
    std::uint64_t refused = 0;     ///< how often there was no room
  };
  Figures figures(int device) const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Work {
    std::shared_ptr<const Moment> moment;
    std::size_t bytes = 0;
  };
  struct Device {
    std::deque<Work> works;   // oldest first
    std::uint64_t bytes = 0;  // of works, and what was begun
    Figures figures;
  };
  static void forget_done(Device& device) noexcept;
  static bool fits(Device& device, std::size_t bytes, std::uint64_t most) noexcept;

  mutable std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace cinch::hooks
