// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace fakecuda {

/// Free ranges of numbers. `take` uses the lowest that fits.
class Extents {
 public:
  static constexpr std::uintptr_t none = ~std::uintptr_t{0};

  /// @return the beginning of the range, or `none`
  std::uintptr_t take(std::size_t size, std::size_t alignment) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      const std::uintptr_t begin = (at->first + alignment - 1) / alignment * alignment;
      const std::uintptr_t end = at->first + at->second;
      if (begin >= end || end - begin < size) continue;
      if (begin > at->first) {
        at->second = begin - at->first;
      } else {
        free_.erase(at);
      }
      if (begin + size < end) free_[begin + size] = end - begin - size;
      return begin;
    }
    return none;
  }

  void give(std::uintptr_t begin, std::size_t size) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == begin + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += size;
        return;
      }
    }
    free_[begin] = size;
  }

 private:
  std::map<std::uintptr_t, std::size_t> free_;
};

}  // namespace fakecuda
