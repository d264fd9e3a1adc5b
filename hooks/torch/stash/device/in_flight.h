// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace cinch::hooks {

/// Back-pressure: bounds the bytes of each CUDA device that can't be freed before an event of its
/// work, since the host may run far ahead of the device. The host asks; it waits in await_oldest()
/// alone. Thread-safe.
///
/// One instance bounds sources that wait for the side stream: without room, an entry is encoded on
/// the stream of its values, whose next tensor can reuse the memory at once. Another bounds sources
/// and encodings whose encoded size is not known yet: without room, an entry is encoded later.
class InFlight {
 public:
  /// An event in a stream of a device.
  struct Moment {
    virtual ~Moment() = default;
    /// Whether the device has reached it. Doesn't wait.
    virtual bool happened() const noexcept = 0;
    /// The host waits until the device has reached it, or never will.
    virtual void wait() const = 0;
  };

  /// Reserves `bytes`, if at most `most` are then reserved on the device, or none were before.
  /// @return whether they are reserved; if so, the caller must then call enqueued() in any case
  bool begin(int device, std::size_t bytes, std::uint64_t most);

  /// Whether begin() would succeed.
  bool has_room(int device, std::size_t bytes, std::uint64_t most);

  /// Bytes of begin() are released when the device has reached `moment` and all moments of earlier
  /// calls. Null, since nothing was enqueued: they are released at once.
  void enqueued(int device, std::size_t bytes, std::shared_ptr<const Moment> moment) noexcept;

  /// Releases the bytes of moments that were reached. begin() does so only if it lacks room.
  void look(int device);

  /// The host waits for the oldest moment. @return whether bytes were released; false where there
  /// is none, or the device will never reach it
  bool await_oldest(int device);

  struct Figures {
    std::uint64_t most_bytes = 0;  ///< peak of the reserved bytes
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
    std::uint64_t bytes = 0;  // reserved: of works, and of begin() without enqueued() yet
    Figures figures;
  };
  static void forget_done(Device& device) noexcept;
  static bool fits(Device& device, std::size_t bytes, std::uint64_t most) noexcept;

  mutable std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace cinch::hooks
