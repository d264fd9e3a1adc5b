// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "allocator/blocks/block.h"
#include "allocator/blocks/node_pool.h"
#include "allocator/blocks/order.h"
#include "allocator/config.h"
#include "allocator/driver/driver.h"
#include "allocator/stats.h"

namespace cinch::allocator {

/// One granule of a region's addresses.
struct Unit {
  Physical* physical = nullptr;
  std::uint32_t pins = 0;  ///< while above 0, the handle mapped here must stay
};

struct FreeUnits {
  void operator()(Unit* units) const noexcept { std::free(units); }
};
/// Zeroed by calloc, so that units of addresses never used cost no memory.
using Units = std::unique_ptr<Unit[], FreeUnits>;

/// One reservation of addresses. Its blocks tile it.
struct Region {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t pool = 0;
  Block* first = nullptr;
  Units units;
};

/// Manages addresses and physical handles, and which handle is mapped where.
///
/// Handles that are wholly free can be moved: into one contiguous range on a miss ("stitching"), or
/// back to the driver. A handle that the device may still be working with moves within its stream
/// only: it is mapped at the new addresses at once, where the stream's later work runs after the
/// earlier, and unmapped from the old ones when the device is done with them. An operation that
/// fails leaves everything as it was, except that handles may end up in the list of unmapped
/// handles. Not thread-safe; throws nothing.
class Space {
 public:
  /// Indices of the pools.
  static constexpr std::size_t small = 0;
  static constexpr std::size_t large = 1;

  struct Pool {
    BlockTree free;
    BlockTree pending;
    BlockTree holes;  // all with stream 0
  };

  struct Counters {
    std::size_t reserved = 0;  ///< physical bytes owned
    std::size_t peak_reserved = 0;
    std::size_t unmapped = 0;    ///< of these, in unmapped handles
    std::size_t stuck = 0;       ///< bytes of blocks in State::stuck
    Gauge leaving;               ///< bytes of blocks in State::leaving
    std::uint64_t created = 0;   ///< handles, ever
    std::uint64_t released = 0;  ///< handles, ever
    std::uint64_t stitches = 0;  ///< misses that moved memory
    std::uint64_t moved_handles = 0;
    std::uint64_t moved_bytes = 0;
    std::uint64_t moved_early_bytes = 0;  ///< of these, before the device was done with them
    std::uint64_t failures = 0;           ///< driver calls that failed
    std::size_t peak_handles = 0;
    std::array<Gauge, 2> handles_in;   ///< by pool, a count
    std::array<Gauge, 2> reserved_in;  ///< by pool
  };

  Space(const Driver& driver, const Config& config, Order& order);
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  /// Gives all memory back, used or not.
  ~Space();

  /// The smallest free block of the stream with at least `bytes`, or null.
  Block* fit(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* fit_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  /// The same for any other stream; prefers blocks that are idle on the device.
  Block* fit_foreign(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Block* fit_foreign_pending(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;

  /// Takes a free block, or a pending one without waits, out of its tree and makes it used. The
  /// part beyond `bytes` stays free for the block's stream.
  Block* take(Block* block, std::size_t bytes) noexcept;
  /// Makes a used or quick block free for its stream, joined with its free neighbours.
  void give(Block* block) noexcept;
  /// Makes a used block pending.
  void suspend(Block* block) noexcept;
  /// Makes a pending block free. @pre its waits are over
  void resume(Block* block) noexcept;

  /// Whose free handles may be moved to make room.
  enum class Donors : std::uint8_t { none, own_stream, all };

  /// Makes a free block of at least `bytes`, which `fit` then finds: extends a free block, moves
  /// free handles there, and creates what is still missing.
  Status grow(std::size_t pool, std::uint32_t stream, std::size_t bytes, Donors donors) noexcept;

  /// Gives free handles to the driver until `bytes` are given or none is left: unmapped handles,
  /// then, if `may_unmap`, mapped ones that are idle. Returns the bytes given.
  std::size_t release(std::size_t bytes, bool may_unmap) noexcept;
  /// Gives back the addresses of empty regions.
  void release_regions() noexcept;

  /// Keeps the handles mapped at these bytes where they are until unpin. False when no region has
  /// the address. @pre the bytes are in one region
  bool pin(Address address, std::size_t bytes) noexcept;
  void unpin(Address address, std::size_t bytes) noexcept;

  /// The handle mapped at the address. @pre there is one
  const Physical& behind(const Region& region, Address address) const noexcept {
    return *physical_at(region, address);
  }

  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }
  std::size_t limit() const noexcept { return limit_; }

  const Counters& counters() const noexcept { return counters_; }
  void reset_peaks() noexcept;
  /// Calls the driver's set_access again for all mapped handles, after the set of devices that may
  /// use them has changed. Stops at the first failure.
  Status renew_access() noexcept;
  Pool& pool(std::size_t index) noexcept { return pools_[index]; }
  const std::vector<std::unique_ptr<Region>>& regions() const noexcept { return regions_; }
  std::size_t granularity() const noexcept { return driver_.granularity; }

  /// Checks all invariants. If one is broken, returns false and sets `fault` to a description.
  bool verify(std::string& fault) const;

 private:
  struct Found;
  bool verify_blocks(const Region& region, Found& found) const;
  bool verify_handles(const Region& region, Found& found) const;
  bool verify_counts(Found& found) const;

  struct Place {
    Block* left = nullptr;  // free block before the hole
    Block* hole = nullptr;
    Block* right = nullptr;  // free block after the hole
    std::size_t need = 0;    // bytes to map
    bool at_end = false;     // map the hole's end, not its beginning
  };
  struct List {
    Physical* first = nullptr;
    Physical* last = nullptr;
    std::size_t bytes = 0;
    void append(Physical* physical) noexcept;
  };

  Block* split(Block* block, std::size_t bytes) noexcept;
  void join(Block* block) noexcept;
  void insert_free(Block* block) noexcept;
  void insert_hole(Block* block) noexcept;
  BlockTree& tree_of(const Block* block) noexcept;
  std::size_t unit_index(const Region& region, Address address) const noexcept {
    return (address - region.address) / driver_.granularity;
  }
  Physical* physical_at(const Region& region, Address address) const noexcept {
    return region.units[unit_index(region, address)].physical;
  }
  /// `bytes`, rounded up.
  std::size_t in_granules(std::size_t bytes) const noexcept {
    return (bytes + driver_.granularity - 1) / driver_.granularity * driver_.granularity;
  }
  bool pinned(const Region& region, const Physical& physical) const noexcept;

  Place choose(std::size_t pool, std::uint32_t stream, std::size_t bytes) noexcept;
  Status reserve(std::size_t pool, std::size_t bytes) noexcept;
  Status find_place(std::size_t pool, std::uint32_t stream, std::size_t bytes, Donors whose,
                    Place& place) noexcept;
  void learn_what_is_done(std::uint32_t stream, Donors whose) noexcept;
  void claim(std::size_t pool, const Place& place) noexcept;
  Block* cut_target(const Place& place, std::size_t bytes) noexcept;
  void take_unmapped(List& list, std::size_t& remaining, std::size_t room) noexcept;
  BlockTree::iterator donor_from(BlockTree& tree, BlockTree::iterator at) const noexcept;
  Block* claim_run(Block* block, std::size_t most) noexcept;
  Block* claim_donors(std::size_t& remaining, std::uint32_t stream, Donors whose) noexcept;
  Status create(List& list, std::size_t& remaining, std::size_t room, std::size_t pool) noexcept;
  bool could_create(std::size_t bytes) noexcept;
  void count_in(Physical* physical, std::size_t pool) noexcept;
  void count_out(Physical* physical) noexcept;
  Status take_donors(Block* donors, List& list, Block*& busy, Status status) noexcept;
  std::uint64_t settle_busy(Block* busy, bool moved) noexcept;
  bool unmap_run(Block* block, List& list) noexcept;
  void leave(Block* block) noexcept;
  void unmap_left() noexcept;
  bool unmap_rest(Block* block) noexcept;
  Status map_all(Block* target, const List& list) noexcept;
  void use_at(Physical* physical, Region& region, Address at) noexcept;
  void unmap_again(Physical* physical, Region& region, Address at) noexcept;
  void set_units(Region& region, Address at, std::size_t bytes, Physical* physical) noexcept;
  void set_unmapped(Physical* physical, Region& region, Address at) noexcept;
  void keep_unmapped(Physical* physical) noexcept;
  void undo(Block* target, const List& list) noexcept;
  std::size_t give_to_driver(Physical* physical) noexcept;
  void retry_stuck() noexcept;
  bool idle(const Block* block) const noexcept {
    return order_.idle(block->stream, block->free_number);
  }
  void query_all() noexcept;
  void look_for_idle() noexcept;
  std::size_t page_bytes(std::size_t pool) const noexcept;
  Status count(Status status) noexcept;

  const Driver driver_;
  const Config config_;
  Order& order_;
  std::array<Pool, 2> pools_;
  std::vector<std::unique_ptr<Region>> regions_;
  NodePool<Block> blocks_;
  NodePool<Physical> physicals_;
  Physical* unmapped_ = nullptr;  // the list of unmapped handles
  Block* leaving_ = nullptr;      // the list of leaving blocks, by quick_next
  // Whether neighbouring free blocks may be of different streams.
  bool foreign_neighbours_ = false;
  std::size_t limit_;
  Counters counters_;
};

}  // namespace cinch::allocator
