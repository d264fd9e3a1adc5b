// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "allocator/core.h"
#include "allocator/node_pool.h"
#include "allocator/pointer_table.h"

namespace cinch::allocator {

/// Memory for what the stash holds, apart from the program's blocks: encoded entries live from
/// forward to backward, are of any size, and would pin the pages between which they lay.
///
/// Pieces are cut one after the other from segments, which are large blocks of a core. A freed
/// piece serves the next of its size class (8 classes for each doubling: a 16th wasted on average);
/// a segment whose pieces are all free starts anew, or goes back to the core when the arena has
/// more than it lately needed. Memory is freed as of a moment: whoever gets it next waits for that
/// on the device; the host never does.
///
/// Thread-safe. Throws nothing.
class Arena {
 public:
  struct Config {
    /// Segments' size; a larger piece gets a segment of its own. Bytes.
    std::size_t segment_bytes = 32 * mebibyte;
    /// Pieces' sizes and addresses are multiples of it; a power of two.
    std::size_t quantum = 512;
  };

  /// The core outlives the arena.
  explicit Arena(Core& core) : Arena(core, Config()) {}
  Arena(Core& core, const Config& config);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  /// Gives everything back. @pre nothing of it is used, by the device neither
  ~Arena();

  /// At least `bytes` for use in `stream`, contents undefined. 0 when there is no memory.
  Address allocate(std::size_t bytes, Stream stream);

  /// Gives a piece back: what uses the memory next comes after the moment, a null moment having
  /// passed. The caller still drops the moment. False, and nothing happens, when the address is no
  /// piece's.
  bool free(Address address, Moment* moment);

  /// Starts a period of use, as a step of training is one. Idle segments beyond the most that was
  /// used at once in this period or the last go back to the core.
  void new_period();
  /// All idle segments go back to the core: another needs the memory. Returns bytes.
  std::size_t release_idle();

  struct Figures {
    std::size_t used = 0;      ///< in pieces, rounding included
    std::size_t reserved = 0;  ///< in segments
    std::size_t peak_used = 0;
    std::size_t peak_reserved = 0;
    std::size_t segments = 0;
    std::size_t pieces = 0;
  };
  Figures figures() const;

  /// Checks all invariants. Slow; for tests.
  bool verify(std::string& fault) const;

  /// For holding the lock over a fork: before the core's.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Segment;

  /// A piece of a segment; used, or free in its class's list.
  struct Piece {
    Address address = 0;
    std::size_t bytes = 0;
    Segment* segment = nullptr;
    Moment* moment = nullptr;  // while free: what the next user waits for
    Piece* previous = nullptr;
    Piece* next = nullptr;             // in the class's list
    Piece* next_in_segment = nullptr;  // all of a segment's
    std::size_t size_class = 0;
    bool used = false;
  };

  struct Segment {
    Address address = 0;
    std::size_t bytes = 0;
    std::size_t cut = 0;   // bytes that are pieces' already
    std::size_t live = 0;  // used pieces
    Stream stream = 0;     // whose use of the segment the core knows of
    Piece* pieces = nullptr;
    // What a piece cut now waits for: left by the pieces that were here before.
    std::vector<Moment*> moments;
  };

  struct List {
    Piece* first = nullptr;
    Piece* last = nullptr;
  };

  static constexpr std::size_t steps_per_doubling = 8;
  static constexpr std::size_t classes = 64 * steps_per_doubling;

  std::size_t class_of(std::size_t& bytes) const noexcept;
  Piece* reuse(std::size_t size_class, Stream stream) noexcept;
  Piece* cut(std::size_t size_class, std::size_t bytes, Stream stream) noexcept;
  bool add_segment(std::size_t bytes, Stream stream) noexcept;
  Address give_out(Piece* piece) noexcept;
  void forget_passed(Segment& segment) noexcept;
  void append(Piece* piece) noexcept;
  void unlink(Piece* piece) noexcept;
  void start_anew(Segment& segment) noexcept;
  bool give_back(std::size_t index) noexcept;
  std::size_t trim(std::size_t keep) noexcept;

  Core& core_;
  const Config config_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::array<List, classes> free_;
  NodePool<Piece> pieces_;
  PointerTable<Piece> table_;  // used pieces
  std::size_t used_ = 0;
  std::size_t reserved_ = 0;
  std::size_t peak_used_ = 0;
  std::size_t peak_reserved_ = 0;
  std::size_t most_now_ = 0;     // used at once in this period
  std::size_t most_before_ = 0;  // and in the one before
};

}  // namespace cinch::allocator
