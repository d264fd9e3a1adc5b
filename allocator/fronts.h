// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "allocator/block.h"
#include "allocator/config.h"
#include "allocator/driver.h"
#include "allocator/lock.h"

namespace cinch::allocator {

/// Blocks freed a moment ago, in front of a core's lock: they serve requests of exactly their size
/// and stream under a lock that hardly any other thread wants.
///
/// A front belongs to a stream and to every eighth thread. It keeps a few sizes, and no more
/// bytes than Config::front_bytes. To the core its blocks are used blocks, but for
/// Block::in_front; `account` says what that makes wrong in the core's figures. Where two locks are
/// held, the core's is taken first. Throws nothing.
class Fronts {
 public:
  /// What a core that counts the fronts' blocks as used has to correct. Bytes unless named
  /// otherwise.
  struct Account {
    struct Pool {
      std::size_t blocks = 0;     ///< kept now, a count
      std::size_t bytes = 0;      ///< in these
      std::size_t requested = 0;  ///< in these, by their last users
      /// What blocks' next users asked for beyond what their last ones did, modulo 2^64.
      std::size_t change = 0;
      std::uint64_t taken = 0;            ///< a count
      std::uint64_t taken_bytes = 0;      ///< in blocks taken
      std::uint64_t taken_requested = 0;  ///< for blocks taken
    };
    std::array<Pool, 2> pools;  ///< by the space's pool
    std::uint64_t given = 0;    ///< a count

    void add(const Account& other) noexcept;
  };

  explicit Fronts(const Config& config) : limit_(config.front_limit), most_(config.front_bytes) {}
  Fronts(const Fronts&) = delete;
  Fronts& operator=(const Fronts&) = delete;
  ~Fronts();

  /// Whether blocks are kept. Any thread.
  bool open() const noexcept { return open_.load(std::memory_order_acquire); }

  /// A block of exactly so many bytes for use in the stream, or null. Any thread, without the
  /// core's lock.
  Block* take(Stream stream, std::size_t bytes, std::size_t requested, std::uint64_t tag) noexcept;

  enum class Given : std::uint8_t {
    kept,
    refused,  ///< nothing has happened: the core's free decides
    stale,    ///< the same, and the front is full of what nobody asks for: drain it
  };
  /// Keeps a block. Any thread, without the core's lock. `address` is the block's unless somebody
  /// else frees it at the same time.
  Given give(Block* block, Address address) noexcept;

  // The rest: with the core's lock held.

  /// Whether they were ever open: if not, no free can come past the core's lock.
  bool ever_open() const noexcept { return ever_open_; }
  void open_all() noexcept;
  /// Nothing is kept from now on; what is stays until it is drained.
  void close() noexcept { open_.store(false, std::memory_order_release); }
  /// Makes the stream's fronts if there are none. Without memory for them, and beyond some number
  /// of streams, it has none.
  void add_stream(std::uint32_t index, Stream stream) noexcept;

  /// Takes out everything that is kept for the stream: a list by quick_next, its blocks still
  /// marked, and what the core has to correct if it counts these as freed; account is added to.
  Block* drain(std::uint32_t index, Account& account) noexcept;

  /// While one of these is there no block comes or goes.
  class Stopped {
   public:
    explicit Stopped(const Fronts& fronts) noexcept : fronts_(fronts) { fronts_.lock(); }
    ~Stopped() { fronts_.unlock(); }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    const Fronts& fronts_;
  };
  /// For holding them over a fork; else Stopped.
  void lock() const noexcept;
  void unlock() const noexcept;

  /// Of all streams. @pre stopped
  Account account() const noexcept;
  /// Whether each block kept is marked, used, and where it belongs, and the account is right.
  /// @pre stopped
  bool verify() const noexcept;

 private:
  // A size and what is kept of it.
  struct Slot {
    std::size_t bytes = 0;
    Block* head = nullptr;
  };
  static constexpr std::size_t ways = 4;  // slots that a size may be in
  static constexpr std::size_t slots = 64;
  static constexpr std::size_t most_blocks = 256;          // in a front
  static constexpr std::uint32_t patience = 64;            // refusals until a front counts as stale
  static constexpr std::uint32_t shards = 8;               // fronts of a stream
  static constexpr std::uint32_t most_streams = 64;        // streams with fronts
  static constexpr std::size_t places = 2 * most_streams;  // in by_stream_

  struct alignas(64) Front {
    mutable BriefLock lock;
    std::uint32_t refusals = 0;
    std::array<Slot, slots> kept;
    Account account;

    Slot* find(std::size_t bytes) noexcept;
    Slot* place_for(std::size_t bytes) noexcept;
    std::size_t blocks() const noexcept {
      return account.pools[0].blocks + account.pools[1].blocks;
    }
    std::size_t bytes() const noexcept { return account.pools[0].bytes + account.pools[1].bytes; }
  };

  struct StreamFronts {
    Stream stream = 0;
    std::uint32_t index = 0;
    std::array<Front, shards> fronts;
  };

  static std::size_t set_of(std::size_t bytes) noexcept;
  static std::size_t place_of(Stream stream) noexcept;
  static std::uint32_t shard() noexcept;
  StreamFronts* of(Stream stream) const noexcept;

  const std::size_t limit_;
  const std::size_t most_;
  alignas(64) std::atomic<bool> open_{false};
  bool ever_open_ = false;
  // Both hold the same; what was added stays. Open addressing, and by the core's index.
  std::array<std::atomic<StreamFronts*>, places> by_stream_{};
  std::array<std::atomic<StreamFronts*>, most_streams> by_index_{};
};

}  // namespace cinch::allocator
