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
/// Pieces are cut one after the other from segments, which are blocks of a core. As backward frees
/// in the opposite order, the last piece's bytes can be cut again; those of another serve requests
/// of about their size. A segment with no used piece goes back to the core at once, where it serves
/// the program: the core is a cache already.
///
/// Memory is freed by stream: the same stream gets it next without a driver call. For another an
/// event is recorded then, which serves all that was freed before it, and that stream waits for it
/// on the device; the host never does.
///
/// Thread-safe. Throws nothing.
class Arena {
 public:
  struct Config {
    /// Segments are about this share of the most that was used at once,
    std::size_t share = 16;
    /// within these bounds; a larger piece gets a segment of its own. Bytes.
    std::size_t least_segment = 64 * kibibyte;
    std::size_t most_segment = 32 * mebibyte;
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

  /// The piece is used by `stream` too, up to its free. False when the address is no used piece's,
  /// or the heap has no memory.
  bool record_stream(Address address, Stream stream);

  /// Gives a piece back: what uses the memory next comes after all that the piece's streams have
  /// been given so far. False, and nothing happens, when the address is no used piece's.
  bool free(Address address);

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

  /// Streams, and the number of the last free by one of them.
  struct Users {
    std::uint64_t streams = 0;  // a bit each; the last one stands for all further ones
    std::uint64_t freed = 0;
  };

  /// A piece of a segment; used, or free in its class's list.
  struct Piece {
    Address address = 0;
    std::size_t bytes = 0;
    Segment* segment = nullptr;
    Users users;
    Piece* previous = nullptr;
    Piece* next = nullptr;        // in the class's list
    Piece* cut_before = nullptr;  // of the same segment
    bool used = false;
  };

  struct Segment {
    Address address = 0;
    std::size_t bytes = 0;
    std::size_t cut = 0;     // bytes that are pieces' already
    std::size_t live = 0;    // used pieces
    std::uint32_t home = 0;  // the stream that the core gave it to
    Piece* last = nullptr;   // that was cut
    Users users;             // of what is not cut
  };

  struct StreamState {
    Stream stream = 0;
    Moment* fence = nullptr;  // recorded after `fenced` frees
    std::uint64_t fenced = 0;
    std::uint64_t waiting = 0;  // streams whose next work comes after it
  };

  struct List {
    Piece* first = nullptr;
    Piece* last = nullptr;
  };

  static constexpr std::uint32_t no_stream = UINT32_MAX;
  static constexpr std::size_t steps_per_doubling = 8;
  static constexpr std::size_t classes = 64 * steps_per_doubling;

  std::size_t rounded(std::size_t bytes) const noexcept;
  std::size_t class_of(std::size_t bytes) const noexcept;
  std::size_t segment_bytes(std::size_t bytes) const noexcept;
  std::uint32_t index_of(Stream stream) noexcept;
  bool order(std::uint32_t stream, const Users& after) noexcept;
  bool fence(StreamState& state) noexcept;
  Piece* reuse(std::size_t bytes, std::uint32_t stream) noexcept;
  Piece* cut(std::size_t bytes, std::uint32_t stream) noexcept;
  bool add_segment(std::size_t bytes, Stream stream) noexcept;
  Address give_out(Piece* piece, std::uint32_t stream) noexcept;
  void append(Piece* piece) noexcept;
  void unlink(Piece* piece) noexcept;
  void uncut(Segment& segment) noexcept;
  void give_back(Segment& segment) noexcept;
  void give_back_idle() noexcept;

  Core& core_;
  const Config config_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<StreamState> streams_;
  std::array<List, classes> free_;
  NodePool<Piece> pieces_;
  PointerTable<Piece> table_;  // used pieces
  std::uint64_t frees_ = 0;
  std::size_t used_ = 0;
  std::size_t reserved_ = 0;
  std::size_t peak_used_ = 0;
  std::size_t peak_reserved_ = 0;
};

}  // namespace cinch::allocator
