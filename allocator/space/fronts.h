// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "allocator/blocks/block.h"
#include "allocator/config.h"
#include "allocator/driver/driver.h"
#include "allocator/lock.h"

namespace cinch::allocator {

/// Caches of just freed blocks in front of a core's lock. They serve requests of exactly the same
/// size and stream, under locks with hardly any contention.
///
/// A front belongs to one stream and serves every eighth thread. It keeps a few sizes, and at most
/// Config::front_bytes. The core counts its blocks as used, apart from Block::in_front; `account`
/// returns the corrections of the core's figures. Where two locks are held, the core's is taken
/// first. Throws nothing.
class Fronts {
 public:
  /// Corrections for a core that counts the blocks in fronts as used. Bytes unless named otherwise.
  struct Account {
    struct Pool {
      std::size_t blocks = 0;     ///< kept now, a count
      std::size_t bytes = 0;      ///< in these
      std::size_t requested = 0;  ///< of these, what their last users requested
      /// New minus previous requested bytes, summed over the blocks taken, modulo 2^64.
      std::size_t change = 0;
      std::uint64_t taken = 0;            ///< blocks taken, a count
      std::uint64_t taken_bytes = 0;      ///< in blocks taken
      std::uint64_t taken_requested = 0;  ///< requested for blocks taken
    };
    std::array<Pool, 2> pools;  ///< by the space's pool
    std::uint64_t given = 0;    ///< blocks given, a count

    void add(const Account& other) noexcept;
  };

  explicit Fronts(const Config& config) : limit_(config.front_limit), most_(config.front_bytes) {}
  Fronts(const Fronts&) = delete;
  Fronts& operator=(const Fronts&) = delete;
  ~Fronts();

  /// Whether fronts accept blocks. Any thread.
  bool open() const noexcept { return open_.load(std::memory_order_acquire); }

  /// Takes a block of exactly `bytes` for use in the stream; null when there is none. Any thread,
  /// without the core's lock.
  Block* take(Stream stream, std::size_t bytes, std::size_t requested, std::uint64_t tag) noexcept;

  enum class Given : std::uint8_t {
    kept,
    refused,  ///< nothing has changed: use the core's free
    stale,    ///< the same, and the front is full of unwanted sizes: drain it
  };
  /// Frees a block into a front. Any thread, without the core's lock. `address` is the address
  /// being freed: the block's, unless another thread frees the block at the same time.
  Given give(Block* block, Address address) noexcept;

  // All below: with the core's lock held.

  /// Whether fronts were ever open. If not, every free has taken the core's lock.
  bool ever_open() const noexcept { return ever_open_; }
  void open_all() noexcept;
  /// Fronts accept no more blocks; those in fronts stay until they are drained.
  void close() noexcept { open_.store(false, std::memory_order_release); }
  /// Makes the stream's fronts if it has none. Does nothing without heap memory for them, and for
  /// streams beyond `most_streams`.
  void add_stream(std::uint32_t index, Stream stream) noexcept;

  /// Takes all blocks out of the stream's fronts. Returns them as a list by quick_next, with
  /// Block::in_front still set. Adds to `account` what the core must correct if it counts them as
  /// freed.
  Block* drain(std::uint32_t index, Account& account) noexcept;

  /// While one exists, no block enters or leaves a front.
  class Stopped {
   public:
    explicit Stopped(const Fronts& fronts) noexcept : fronts_(fronts) { fronts_.lock(); }
    ~Stopped() { fronts_.unlock(); }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    const Fronts& fronts_;
  };
  /// Only for holding the locks over a fork; otherwise use Stopped.
  void lock() const noexcept;
  void unlock() const noexcept;

  /// The sum over all streams. @pre stopped
  Account account() const noexcept;
  /// Whether each block in a front is marked, used and in the right list, and the account is right.
  /// @pre stopped
  bool verify() const noexcept;

 private:
  // A size and its blocks.
  struct Slot {
    std::size_t bytes = 0;
    Block* head = nullptr;
  };
  static constexpr std::size_t ways = 4;  // slots in which a size may be
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
  // Both have the same entries, which are never removed: a hash table, and by the core's index.
  std::array<std::atomic<StreamFronts*>, places> by_stream_{};
  std::array<std::atomic<StreamFronts*>, most_streams> by_index_{};
};

}  // namespace cinch::allocator
