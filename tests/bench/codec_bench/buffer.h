// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <span>

namespace cinch::bench {

/// Memory that is kept when less of it is needed: fresh pages would be timed with the codec.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  /// The first `size` bytes; what they hold is lost when they were never that many.
  std::span<std::byte> first(std::size_t size) {
    if (size > capacity_) {
      release();
      data_ = static_cast<std::byte*>(::operator new(size, alignment));
      capacity_ = size;
    }
    return {data_, size};
  }

 private:
  static constexpr std::align_val_t alignment{64};  // as PyTorch's CPU allocator

  void release() { ::operator delete(data_, alignment); }

  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace cinch::bench
