// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::allocator {

/// Result of a driver call.
enum class Status : std::uint8_t {
  ok,
  not_ready,         ///< event_query: the event has not happened yet
  out_of_memory,     ///< no physical memory, or no more handles
  out_of_addresses,  ///< no virtual address space
  failed,            ///< anything else; the call had no effect
};

const char* status_name(Status status) noexcept;

/// A virtual address of the driver. The host may be unable to read it.
using Address = std::uintptr_t;
/// A piece of physical memory of fixed size, mapped as a whole or not at all.
using Handle = std::uint64_t;
/// A queue of work that uses memory in order. 0 is the default stream.
using Stream = std::uintptr_t;
/// Marks a point in a stream; can be recorded again.
using Event = std::uintptr_t;

/// Every call that the allocator makes of a driver: the one door to CUDA, to the operating system,
/// or to a test.
///
/// Calls have no effect when they fail, never throw, and may come from any thread. `self` is what a
/// backend keeps its state in; it outlives whoever holds a copy of the table.
struct Driver {
  void* self = nullptr;
  const char* name = "";
  /// Addresses, handle sizes and mapped ranges are multiples of it; a power of two. Bytes.
  std::size_t granularity = 0;
  /// Memory is idle as soon as it is freed, as on a host: streams and events are not needed, and
  /// free memory can be unmapped at once.
  bool synchronous = false;

  /// Reserves `bytes` of addresses with nothing behind them.
  Status (*reserve)(void* self, std::size_t bytes, Address* address) = nullptr;
  /// Gives back a whole reservation. @pre nothing is mapped in it
  Status (*unreserve)(void* self, Address address, std::size_t bytes) = nullptr;

  /// Creates physical memory; contents undefined.
  Status (*create)(void* self, std::size_t bytes, Handle* handle) = nullptr;
  /// @pre the handle is mapped nowhere
  Status (*release)(void* self, Handle handle) = nullptr;

  /// Maps a handle of `bytes` at the addresses; not accessible before set_access. A handle may be
  /// mapped at several addresses, unless the driver is synchronous: then at one.
  Status (*map)(void* self, Address address, std::size_t bytes, Handle handle) = nullptr;
  /// Undoes one call of map. Contents stay with the handle.
  /// @pre nobody uses the memory any more
  Status (*unmap)(void* self, Address address, std::size_t bytes, Handle handle) = nullptr;
  /// Makes mapped addresses readable and writable; one call may cover several mappings.
  Status (*set_access)(void* self, Address address, std::size_t bytes) = nullptr;

  /// Physical memory that can still be created, and all that the device has. Bytes.
  Status (*memory_info)(void* self, std::size_t* free, std::size_t* total) = nullptr;

  Status (*event_create)(void* self, Event* event) = nullptr;
  Status (*event_destroy)(void* self, Event event) = nullptr;
  /// The event happens when all work in `stream` so far is done.
  Status (*event_record)(void* self, Event event, Stream stream) = nullptr;
  /// ok, not_ready, or failed. Never waits.
  Status (*event_query)(void* self, Event event) = nullptr;
  /// Blocks the host until the event happens; the allocator's last resort before out of memory.
  Status (*event_synchronize)(void* self, Event event) = nullptr;
  /// Later work in `stream` waits for the event; the host does not.
  Status (*stream_wait)(void* self, Stream stream, Event event) = nullptr;

  /// A clock that never goes back. Nanoseconds.
  std::uint64_t (*now)(void* self) = nullptr;
};

}  // namespace cinch::allocator
