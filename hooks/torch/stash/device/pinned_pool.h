// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace cinch::hooks {

/// The end of a copy on a device's stream. Of copies on one stream (`queue`), the one with the
/// larger number ends later.
struct CopyMoment {
  virtual ~CopyMoment() = default;
  std::intptr_t queue = 0;
  std::uint64_t number = 0;
};
using CopyMoments = std::vector<std::shared_ptr<const CopyMoment>>;

/// A bounded pool of page-locked host memory for bytes that leave a device. Segments are cut into
/// pieces, which join free neighbours when they are given back. A piece may be given back while
/// copies still use it: its next user gets the list of these copies, and its own copy must wait for
/// them on the device. The host never waits. Segments stay until the process ends, since unlocking
/// them would wait for the devices. Thread-safe.
class PinnedPool {
 public:
  /// Where segments come from.
  struct Host {
    /// Page-locked memory, or null.
    void* (*allocate)(std::size_t bytes) noexcept;
    /// Bytes that the host has available; page-locked memory can't be swapped out.
    std::size_t (*available)() noexcept;
  };

  /// Sizes and addresses of pieces are multiples of it.
  static constexpr std::size_t quantum = 4096;
  static constexpr std::size_t segment_bytes = std::size_t{64} << 20;
  /// Available bytes that are always left to the host.
  static constexpr std::size_t least_left = std::size_t{512} << 20;

  /// @param most Limit of bytes in all; 0: half of what the host has available when the first
  /// segment is made, divided by `sharers`, the number of such processes
  /// @param segment Bytes of a segment, a multiple of the quantum
  PinnedPool(Host host, std::uint64_t most, unsigned sharers, std::size_t segment = segment_bytes)
      : host_(host), most_(most), sharers_(sharers == 0 ? 1 : sharers), segment_(segment) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// A piece; its destructor gives it back. The pool must outlive it.
  class Piece {
   public:
    Piece(Piece&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          data_(other.data_),
          before_(std::move(other.before_)),
          users_(std::move(other.users_)) {}
    Piece& operator=(Piece&&) = delete;
    ~Piece();

    std::byte* data() const noexcept { return data_; }
    /// The earlier copies that a copy into the piece must wait for.
    const CopyMoments& before() const noexcept { return before_; }
    /// Notes that the copy `by`, to or from the piece, was enqueued.
    void used(std::shared_ptr<const CopyMoment> by);

   private:
    friend class PinnedPool;
    Piece(PinnedPool& pool, std::byte* data, CopyMoments before)
        : pool_(&pool), data_(data), before_(std::move(before)) {}
    PinnedPool* pool_;
    std::byte* data_;
    CopyMoments before_;
    CopyMoments users_;
  };

  /// A piece of `bytes` or more, contents undefined; null when there is no memory. @pre bytes > 0
  std::unique_ptr<Piece> take(std::size_t bytes);

  struct Figures {
    std::size_t used = 0;
    std::size_t peak_used = 0;
    std::size_t reserved = 0;  ///< in segments; never shrinks
    std::uint64_t most = 0;    ///< 0 before it is known
  };
  Figures figures() const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Free {
    std::size_t bytes = 0;
    std::size_t segment = 0;
    CopyMoments before;
  };
  struct Used {
    std::size_t bytes = 0;
    std::size_t segment = 0;
  };

  bool add_segment(std::size_t bytes);
  void give_back(std::byte* data, CopyMoments users) noexcept;
  void add_free(std::byte* data, Free range);
  Free take_free(std::map<std::byte*, Free>::iterator where);

  const Host host_;
  std::uint64_t most_;
  const unsigned sharers_;
  const std::size_t segment_;
  mutable std::mutex mutex_;
  std::map<std::byte*, Free> free_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;
  std::map<std::byte*, Used> used_;
  std::size_t segments_ = 0;
  std::size_t refused_ = static_cast<std::size_t>(-1);  // smallest request refused lately
  Figures figures_;
};

/// Adds `moment` to `into`, replacing an earlier one of the same queue.
void merge(CopyMoments& into, const std::shared_ptr<const CopyMoment>& moment);

}  // namespace cinch::hooks
