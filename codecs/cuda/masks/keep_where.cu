// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/masks/keep_where.h"

namespace cinch::codecs::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    keep_where_set(std::int64_t elements, bool vectors, const std::byte* bits, const T* x, T* y) {
  take_items((elements + kStretch - 1) / kStretch, [&](std::int64_t i) {
    const ContiguousPlace place(i * kStretch);
    const std::int64_t left = elements - i * kStretch;
    const int count = left < kStretch ? static_cast<int>(left) : kStretch;
    const auto kept = static_cast<unsigned>(bits[i]);
    Patterns<T> values = {};
    load_any(x, place, 0, count, vectors, values);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if ((kept >> j & 1U) == 0) values.of[j] = T{0};
    }
    store_any(y, place, 0, count, vectors, values);
  });
}

template <typename T>
bool launch_of(std::int64_t elements, const std::byte* bits, const void* x, void* y,
               Stream stream) noexcept {
  const std::int64_t blocks = (elements + kRunReach - 1) / kRunReach;
  return launch(keep_where_set<T>, blocks_in(stream, std::min(blocks, kMaxBlocks), kRunThreads),
                kRunThreads, 0, stream, elements, is_vector_aligned(x) && is_vector_aligned(y),
                bits, static_cast<const T*>(x), static_cast<T*>(y));
}

}  // namespace

bool keep_where(std::size_t size, std::int64_t elements, const std::byte* bits, const void* x,
                void* y, Stream stream) noexcept {
  if (elements <= 0) return true;
  if (size == 2) return launch_of<std::uint16_t>(elements, bits, x, y, stream);
  return size == 4 && launch_of<std::uint32_t>(elements, bits, x, y, stream);
}

}  // namespace cinch::codecs::cuda
