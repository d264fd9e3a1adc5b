// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include <c10/core/Allocator.h>

namespace cinch::hooks {

/// Large page-aligned buffers that are used again and again: a fresh 32 MB buffer costs 11 ms in
/// page faults, a reused one 1 ms.
///
/// A pool holds little more than it recently needed at once: idle buffers go back to the operating
/// system, least recently used first, as soon as idle plus used bytes exceed the most that was in
/// use during this period or the last (`new_period`) by more than an eighth and 8 MiB.
/// Thread-safe.
class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  /// @pre every buffer was given back
  ~BufferPool() { unmap(idle_); }

  /// A buffer of at least `bytes`, contents undefined; its deleter gives it back. Small ones come
  /// from the C library and are neither kept nor counted. Null data when
  /// the system has no memory, or when bytes is 0.
  c10::DataPtr take(std::size_t bytes);

  /// Starts a period of use, as a step of training is one.
  void new_period();

  std::size_t used_bytes() const;
  std::size_t idle_bytes() const;

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Buffer {
    BufferPool* pool;
    void* data;
    std::size_t bytes;
    std::list<Buffer*>
        link;  ///< its place in idle_ while it is in use: giving back allocates nothing
  };

  Buffer* make_buffer(std::size_t bytes);

  static void give_back(void* buffer);
  static void unmap(const std::list<Buffer*>& buffers);
  void trim(std::list<Buffer*>& freed);

  mutable std::mutex mutex_;
  std::list<Buffer*> idle_;  // most recently used first
  std::size_t idle_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_now_ = 0;
  std::size_t peak_before_ = 0;
};

/// The stash's buffers in the host's memory.
struct HostBuffers {
  BufferPool encoded;
  BufferPool decoded;
};

/// Zeros that cost no memory until written to: fresh pages, given back when dropped.
c10::DataPtr zero_pages(std::size_t bytes);

}  // namespace cinch::hooks
