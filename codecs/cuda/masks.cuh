// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/codec.h"
#include "codecs/cuda/logical.cuh"

/// Kernels for codecs that store one bit an element. The codec says what a bit means.
namespace cinch::codecs::cuda {

/// Where the elements of an element-wise kernel lie.
struct MaskJob {
  LogicalOrder order;
  std::int64_t elements;
  bool vectors;

  MaskJob(const Description& what, const void* memory) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        vectors(order.contiguous && is_vector_aligned(memory)) {}
};

/// Sets bit k of `out` to test(bit pattern of element k, strange). `test` sets `strange` if the
/// codec can't represent the element.
template <typename T, typename Test>
__device__ __forceinline__ void encode_mask(const MaskJob& job, const void* source, std::byte* out,
                                            Result* result, const Test& test) {
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    Patterns<T> x = {};
    load_any(static_cast<const T*>(source), place, i, count, job.vectors, x);
    unsigned bits = 0;
    bool strange = false;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j < count) bits |= static_cast<unsigned>(test(x.of[j], strange)) << j;
    }
    out[(first + i) / 8] = static_cast<std::byte>(bits);
    if (strange) result->not_representable = 1;
  });
}

/// Sets element k of `target` to `set` where bit k of `in` is 1, else to `clear`.
template <typename T>
__device__ __forceinline__ void decode_mask(const MaskJob& job, const std::byte* in, T set, T clear,
                                            void* target) {
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    const auto bits = static_cast<unsigned>(in[(first + i) / 8]);
    Patterns<T> x;
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x.of[j] = (bits >> j & 1U) != 0 ? set : clear;
    store_any(static_cast<T*>(target), place, i, count, job.vectors, x);
  });
}

}  // namespace cinch::codecs::cuda
