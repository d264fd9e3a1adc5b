// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/host_device.h"

/// The steps of codecs/formats/error_bounded/huffman.h that all engines share. They take pointers,
/// because a GPU runs them on shared memory.
namespace cinch::codecs {

inline constexpr int kMaxCodeBits = 15;

/// Moffat and Katajainen's in-place algorithm: replaces weights, in ascending order, by the depths
/// of their leaves in a Huffman tree, deepest first. @pre n >= 2, the weights' sum fits T
template <typename T>
CINCH_HD inline void replace_weights_by_depths(T* a, std::uint32_t n) noexcept {
  // Left to right: replace weights by those of inner nodes, then by their parents.
  a[0] += a[1];
  std::uint32_t root = 0;
  std::uint32_t leaf = 2;
  for (std::uint32_t next = 1; next + 1 < n; ++next) {
    T sum = 0;
    for (int child = 0; child < 2; ++child) {
      if (leaf >= n || (root < next && a[root] < a[leaf])) {
        sum += a[root];
        a[root++] = next;
      } else {
        sum += a[leaf++];
      }
    }
    a[next] = sum;
  }
  // Right to left: depths of inner nodes.
  a[n - 2] = 0;
  for (std::uint32_t i = n - 2; i-- > 0;) a[i] = a[a[i]] + 1;
  // Right to left: depths of leaves.
  std::uint32_t available = 1;
  T depth = 0;
  std::uint32_t inner = n - 1;  // inner nodes left, at `depth` or deeper
  std::uint32_t next = n;
  while (available > 0) {
    std::uint32_t used = 0;
    while (inner > 0 && a[inner - 1] == depth) {
      ++used;
      --inner;
    }
    for (; available > used; --available) a[--next] = depth;
    available = 2 * used;
    ++depth;
  }
}

/// Turns a histogram of code lengths (0 to kMaxCodeBits, where the last counts all longer ones too)
/// into that of a prefix-free code. While there is one code word too many, drops a longest one and
/// splits the deepest leaf above the limit into two.
CINCH_HD inline void limit_code_lengths(std::uint32_t* count) noexcept {
  // Code words in use, in units of the longest.
  std::uint32_t used = 0;
  for (int bits = 1; bits <= kMaxCodeBits; ++bits) used += count[bits] << (kMaxCodeBits - bits);
  for (; used > 1U << kMaxCodeBits; --used) {
    --count[kMaxCodeBits];
    int bits = kMaxCodeBits - 1;
    while (count[bits] == 0) --bits;
    --count[bits];
    count[bits + 1] += 2;
  }
}

/// Writes `n` lengths as write_code_lengths in codecs/formats/error_bounded/huffman.h; at most `n`
/// bytes.
CINCH_HD inline std::size_t write_code_lengths(const std::uint8_t* lengths, std::uint32_t n,
                                               std::byte* out) noexcept {
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < n;) {
    std::uint32_t run = 1;
    while (run < 16 && i + run < n && lengths[i + run] == lengths[i]) ++run;
    out[bytes++] = static_cast<std::byte>((lengths[i] - 1U) << 4 | (run - 1));
    i += run;
  }
  return bytes;
}

}  // namespace cinch::codecs
