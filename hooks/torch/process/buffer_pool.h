// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include <c10/core/Allocator.h>

namespace cinch::hooks {

/// Reuses large page-aligned buffers: a fresh 32 MB buffer costs 11 ms in page faults, a reused one
/// 1 ms.
///
/// Idle buffers go back to the operating system, least recently used first, as soon as idle plus
/// used bytes exceed the peak use of this and the last period (`new_period`) by more than an eighth
/// of it and more than 8 MiB. Thread-safe.
class BufferPool {
 public:
  /// Gives a block, or null data.
  using Source = c10::DataPtr (*)(std::size_t bytes);

  /// @param first where each buffer is asked for first; null: nowhere. The pool has its own where
  /// that gives none, and does not count what it gives.
  explicit BufferPool(Source first = nullptr) noexcept : first_(first) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  /// @pre every buffer was given back
  ~BufferPool() { unmap(idle_); }

  /// A buffer of at least `bytes`, contents undefined; its deleter gives it back. Small ones come
  /// from the C library and are neither kept nor counted. Null data when there is no memory, or
  /// `bytes` is 0.
  c10::DataPtr take(std::size_t bytes);

  /// Starts a new period of use. The stash does so when a growth ends.
  void new_period();

  /// Gives all idle buffers to the operating system. Returns the bytes.
  std::size_t release_idle();

  std::size_t used_bytes() const;
  std::size_t idle_bytes() const;

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Buffer {
    BufferPool* pool;
    void* data;
    std::size_t bytes;
    std::list<Buffer*>
        link;  ///< its node of idle_ while in use, so that giving back allocates nothing
  };

  Buffer* make_buffer(std::size_t bytes);

  static void give_back(void* buffer);
  static void unmap(const std::list<Buffer*>& buffers);
  void trim(std::list<Buffer*>& freed);

  const Source first_;
  mutable std::mutex mutex_;
  std::list<Buffer*> idle_;  // most recently used first
  std::size_t idle_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_now_ = 0;
  std::size_t peak_before_ = 0;
};

/// Fresh pages of zeros, which cost no memory until written to; null data when there are none.
c10::DataPtr zero_pages(std::size_t bytes);

}  // namespace cinch::hooks
