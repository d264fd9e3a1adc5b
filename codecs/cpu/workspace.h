// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

/// Scratch memory that a thread's encodes and decodes reuse.
namespace cinch::codecs::cpu {

/// A growing block, aligned for any vector. A `get` that makes it grow drops its contents.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  /// Room for `count` elements of T, or null when memory ran out.
  template <typename T>
  T* get(std::int64_t count) noexcept {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > size_ || data_ == nullptr) grow(bytes);
    return static_cast<T*>(data_);
  }

  /// Frees the memory if it is more than a thread should hold until the next call.
  void trim() noexcept {
    if (size_ > kKeptBytes) clear();
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::size_t kKeptBytes = std::size_t{4} << 20;

  void clear() noexcept {
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
  }

  void grow(std::size_t bytes) noexcept {
    clear();
    const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    data_ = std::aligned_alloc(kAlignment, rounded);
    if (data_ == nullptr) return;
    // Vectors may load past what was stored. Those lanes are ignored, but are initialized anyway.
    std::memset(data_, 0, rounded);
    size_ = rounded;
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Scratch of the kernels; each buffer is a plane or a few planes, unless noted.
struct Workspace {
  Buffer tile;      ///< gathered planes, in the source's type
  Buffer plane;     ///< one plane as floats
  Buffer residual;  ///< one plane as floats
  Buffer codes;     ///< one byte an element
  Buffer signs;     ///< one byte an element
  Buffer draws;     ///< a stretch of random draws
  Buffer row;       ///< rows as floats
  Buffer sums;      ///< one row of block sums
  Buffer means;     ///< one row of block means
  Buffer columns;   ///< tables over the columns of a plane
  Buffer runs;      ///< tables over the rows of a plane
  Buffer pools;     ///< tables over the rows of blocks of a plane
  Buffer ranges;    ///< facts about each of some planes
  Buffer chunk;     ///< a task's scratch for a chunk
  Buffer escapes;   ///< a chunk's elements that codes do not hold
  Buffer stream;    ///< a chunk's bit streams

  // Tables of a whole call over all planes, channels or chunks: its tasks neither allocate nor trim
  // these.
  Buffer sums_of_planes;
  Buffer sums_of_chunks;
  Buffer channels;
  Buffer survey;
  Buffer offsets;

  void trim() noexcept {
    for (Buffer* b : {&tile, &plane, &residual, &codes, &signs, &draws, &row, &sums, &means,
                      &columns, &runs, &pools, &ranges, &chunk, &escapes, &stream}) {
      b->trim();
    }
  }
};

/// The calling thread's workspace.
inline Workspace& workspace() noexcept {
  thread_local Workspace instance;
  return instance;
}

}  // namespace cinch::codecs::cpu
