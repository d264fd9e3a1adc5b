// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "allocator/blocks/block.h"
#include "allocator/blocks/block_list.h"
#include "allocator/blocks/order.h"
#include "allocator/blocks/pointer_table.h"
#include "allocator/breakdown.h"
#include "allocator/config.h"
#include "allocator/driver/driver.h"
#include "allocator/lock.h"
#include "allocator/space/fronts.h"
#include "allocator/space/space.h"
#include "allocator/stats.h"

namespace cinch::allocator {

/// The caching allocator of one device.
///
/// A freed block serves the next request of the same stream at once, since a stream's work runs in
/// order. Another stream that gets the block is made to wait on the device; the host waits only
/// when memory would run out otherwise. On a miss, free handles are moved to one contiguous range,
/// and only what is still missing is created.
///
/// Thread-safe. Throws nothing; a failed call leaves everything as it was.
class Core {
 public:
  /// Called without locks when no memory is left: should free at least `bytes` in this allocator.
  /// Returns about how many it freed; 0 when it can't free any.
  using Reclaim = std::function<std::size_t(std::size_t bytes)>;

  /// @pre the driver's state outlives the core
  explicit Core(const Driver& driver, const Config& config = Config::device());
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  /// Gives all memory back. @pre no block is in use, on the host or by pending device work
  ~Core();

  /// Allocates at least `bytes` for use in `stream`; contents undefined; 0 bytes give a block too.
  /// Returns 0 when there is no memory. `tag` is the caller's, for breakdowns and snapshots.
  Address allocate(std::size_t bytes, Stream stream = 0, std::uint64_t tag = 0);

  /// Frees a block. Its stream, and those that record_stream named, may still have work with it.
  /// False, and nothing happens, when no used block begins at `address`, as at 0.
  bool free(Address address);

  /// Notes that `stream` uses the block too, until its free. False when it is not a used block, or
  /// the heap has no memory.
  bool record_stream(Address address, Stream stream);

  /// Bytes of a used block, rounding included; 0 when it is not a used block.
  std::size_t size_of(Address address) const;

  /// Gives all free memory to the driver (PyTorch's empty_cache), after waiting for device work
  /// that still uses it; while paused, only unmapped handles. Returns the bytes given.
  std::size_t release_idle();
  /// The same, but ignores the pause. @pre the reason for the pause allows it on this thread
  std::size_t release_idle_now();

  /// While paused no memory is moved or unmapped and no event is recorded, queried or waited for,
  /// as a graph capture needs. Waits of other threads that have begun are over first. Calls nest.
  void pause();
  void resume();

  /// Keeps the handles behind a used block in place until unpin, also after its free: for memory
  /// that another process or communicator knows by address. False when it is no used block.
  bool pin(Address address);
  void unpin(Address address, std::size_t bytes);

  /// The handles behind a used block, by address. They are whole, so the first may begin before the
  /// block and the last end after it. The core still owns them. Empty when it is no used block.
  struct Piece {
    Handle handle;
    Address address;
    std::size_t bytes;
  };
  std::vector<Piece> behind(Address address) const;

  /// Physical memory never exceeds `bytes` from now on; what is reserved already stays.
  void set_limit(std::size_t bytes);
  std::size_t limit() const;
  void set_reclaim(Reclaim reclaim);

  /// Calls the driver's set_access again for all mapped memory, after the set of devices that may
  /// use it has changed. False when the driver failed.
  bool renew_access();

  Stats stats() const;
  void reset_peaks();
  /// Where the memory is, for out-of-memory messages.
  Breakdown breakdown() const;

  /// One block, as a snapshot shows it.
  struct BlockInfo {
    Address address;
    std::size_t bytes;
    std::size_t requested;
    Stream stream;
    State state;
    bool small;
    std::uint64_t tag;
  };
  /// All blocks by region and address, holes left out.
  std::vector<BlockInfo> snapshot() const;
  /// The used block that begins at the address; nothing when there is none.
  std::optional<BlockInfo> find(Address address) const;

  /// Called when a block's free is complete: only its own stream may still use it, and nobody has
  /// got it yet. If another stream gets the block and waits for all others on the device, the
  /// block's stream is that one. It may enqueue work with the memory on that stream. Called under
  /// the lock; must not throw.
  using Completed = std::function<void(const BlockInfo& block)>;
  /// Null: no calls. Fronts stay closed while a callback is set.
  void set_completed(Completed completed);

  /// Notes the end of one round of what the program does over and over, such as a backward pass.
  /// After some rounds, or some time, what they did not use is given back (Config::idle_period).
  /// Frees give back as well, but only by time.
  void end_round();

  /// Checks all invariants. Slow; for tests. @pre no other thread allocates or frees
  bool verify(std::string& fault) const;

  /// For holding the lock over a fork, where there are no fronts (Config::front_limit is 0).
  std::mutex& mutex() noexcept { return lock_.mutex(); }
  /// For holding all locks over a fork.
  void lock_for_fork() noexcept;
  void unlock_after_fork() noexcept;

 private:
  struct QuickList {
    std::unique_ptr<Block*[]> heads;  // by size in quanta
  };

  Block* allocate_cached(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* allocate_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* allocate_foreign(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* allocate_grown(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* allocate_at_any_price(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                               std::unique_lock<Lock>& lock) noexcept;
  Block* allocate_slowly(std::size_t pool, std::uint32_t stream, std::size_t bytes,
                         std::unique_lock<Lock>& lock) noexcept;
  Block* pop_quick(std::uint32_t stream, std::size_t bytes) noexcept;
  bool push_quick(Block* block) noexcept;
  std::size_t release_everything(std::unique_lock<Lock>& lock, bool even_paused) noexcept;
  bool flush_quick(std::uint32_t stream) noexcept;
  bool flush_all_quick() noexcept;
  bool has_pending_list(std::uint32_t stream) noexcept;
  void add_pending(Block* block) noexcept;
  void remove_pending(Block* block, std::uint32_t stream) noexcept;
  bool settle_pending(bool all) noexcept;
  void finish_everything(std::unique_lock<Lock>& lock, bool even_paused) noexcept;
  void finish_outstanding(std::unique_lock<Lock>& lock) noexcept;
  void free_block(Block* block) noexcept;
  void uncount_used(const Block* block) noexcept;
  Block* claim(Address address) noexcept;
  void heed_contention(std::uint32_t stream) noexcept;
  bool drain_fronts(std::uint32_t stream) noexcept;
  void complete(const Block* block, std::uint32_t stream) const noexcept;
  BlockInfo info(const Block* block) const noexcept;
  const char* fault_of(const Block& block) const noexcept;
  Stats counts() const noexcept;
  void count_allocated(Block* block, std::size_t requested, std::uint64_t tag) noexcept;
  void note_active() noexcept;
  void heed_pressure() noexcept;
  void give_back_idle() noexcept;
  Block* used_block(Address address) const noexcept;
  bool may_remap() const noexcept { return paused_ == 0; }
  bool contended() const noexcept { return lock_.busy() || fronts_.ever_open(); }
  static State state_of(const Block* block) noexcept {
    return block->state == State::used && block->in_front ? State::quick : block->state;
  }

  const Driver driver_;
  const Config config_;
  mutable Lock lock_;
  Order order_;
  Space space_;
  PointerTable<Block> table_;  // used and quick blocks
  Fronts fronts_;
  std::vector<QuickList> quick_;
  std::size_t quick_bytes_ = 0;
  std::size_t pending_bytes_ = 0;
  std::vector<BlockList> pending_;  // of each stream
  int paused_ = 0;
  int waiting_ = 0;  // threads that wait for the device, without the lock
  std::condition_variable_any waited_;
  Reclaim reclaim_;
  Completed completed_;
  Stats counts_;  // the fields that the core counts; not those of space_ and fronts_
  std::uint64_t period_began_ = 0;
  std::uint64_t looked_at_ = 0;
  std::uint32_t rounds_ = 0;          // in this idle period
  std::size_t most_used_now_ = 0;     // in this idle period
  std::size_t most_used_before_ = 0;  // in the one before
};

}  // namespace cinch::allocator
