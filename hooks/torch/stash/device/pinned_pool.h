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

/// A copy of one of the devices' copy streams: when it is done. Of copies in one `queue` the one of
/// the larger number is done later.
struct CopyMoment {
  virtual ~CopyMoment() = default;
  std::intptr_t queue = 0;
  std::uint64_t number = 0;
};
using CopyMoments = std::vector<std::shared_ptr<const CopyMoment>>;

/// Page-locked memory of the host for what leaves a device: segments of at most so many bytes in
/// all, cut into pieces that join their free neighbours again. A piece is given back with the
/// copies that still use it, and whoever gets its bytes next is told them and has its own copy wait
/// for them, on the device. The host never waits, and segments stay until the process ends:
/// unlocking them would wait for the devices. Thread-safe.
class PinnedPool {
 public:
  /// Where segments come from.
  struct Host {
    /// Page-locked memory, or null.
    void* (*allocate)(std::size_t bytes) noexcept;
    /// Bytes that the host can spare; page-locked memory can't be swapped out.
    std::size_t (*available)() noexcept;
  };

  /// Pieces' sizes and addresses are multiples of it.
  static constexpr std::size_t quantum = 4096;
  static constexpr std::size_t segment_bytes = std::size_t{64} << 20;
  /// What is left to the host in any case.
  static constexpr std::size_t least_left = std::size_t{512} << 20;

  /// @param most Bytes in all; 0: half of what the host has available at the first take, divided by
  /// `sharers`, the number of processes like this one
  /// @param segment Bytes of a segment, a multiple of the quantum
  PinnedPool(Host host, std::uint64_t most, unsigned sharers, std::size_t segment = segment_bytes)
      : host_(host), most_(most), sharers_(sharers == 0 ? 1 : sharers), segment_(segment) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// A piece; gives itself back. The pool outlives it.
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
    /// What a copy into the piece has to wait for.
    const CopyMoments& before() const noexcept { return before_; }
    /// A copy to or from the piece was enqueued.
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

  /// At least `bytes`, more than 0, contents undefined; null when the host has no more for it.
  std::unique_ptr<Piece> take(std::size_t bytes);

  struct Figures {
    std::size_t used = 0;
    std::size_t peak_used = 0;
    std::size_t reserved = 0;  ///< in segments, which is its own peak
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
  std::size_t refused_ = static_cast<std::size_t>(-1);  // the fewest bytes that were
  Figures figures_;
};

/// Adds `moment`, in place of an earlier one of the same queue.
void merge(CopyMoments& into, const std::shared_ptr<const CopyMoment>& moment);

}  // namespace cinch::hooks
