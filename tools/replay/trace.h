// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cinch::allocator {

/// The requests of a program to its allocator, in order.
///
/// As a file: lines of text, zstd-compressed or not. The first is "cinch-trace 1"; then
///
///     # a comment; the first one is the trace's title
///     a BYTES STREAM      allocation number 0, 1, 2, … in order of appearance
///     f NUMBER            that allocation is freed
///     r NUMBER STREAM     it is used in another stream, too
///     s                   a training step ends
struct Trace {
  enum class Kind : std::uint8_t { allocate, free, record_stream, step };
  struct Operation {
    Kind kind;
    std::uint32_t number = 0;  ///< of the allocation
    std::uint32_t stream = 0;
    std::size_t bytes = 0;
  };

  /// Streams count from 0. Allocators keep figures of each.
  static constexpr std::uint32_t most_streams = 1024;
  /// An allocation is smaller than this.
  static constexpr std::size_t most_bytes = std::size_t{1} << 50;

  std::string title;
  std::vector<Operation> operations;
  std::uint32_t allocations = 0;

  /// Peak of the bytes in use, each block rounded up to 512 bytes, as every allocator of CUDA
  /// memory has to. `refused` is empty or has a bit for each allocation: those whose bit is set do
  /// not count.
  std::size_t peak_bytes(const std::vector<bool>& refused = {}) const;

  /// In the mean; a trace without steps counts as one.
  double operations_per_step() const;
};

inline constexpr std::size_t trace_quantum = 512;

/// Parses a trace (compressed or not). Returns the trace, or what is wrong with the text.
std::variant<Trace, std::string> parse_trace(std::string_view content);

/// Reads a memory snapshot that torch.cuda.memory._dump_snapshot() pickled: the recorded history of
/// one device. Blocks whose allocation is not in the history are left out.
std::variant<Trace, std::string> import_snapshot(std::string_view pickle, std::size_t device = 0);

/// Reads a file of either kind. Returns the trace, or why it can't be read.
std::variant<Trace, std::string> load_trace(const std::string& path);

/// The trace's text, compressed. @throws std::bad_alloc
std::string to_file(const Trace& trace);

}  // namespace cinch::allocator
