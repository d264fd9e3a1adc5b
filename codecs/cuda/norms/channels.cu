// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/norms/channels.h"
#include "codecs/cuda/norms/columns.cuh"
#include "codecs/cuda/pieces.cuh"

namespace cinch::codecs::cuda {
namespace {

/// How eight neighbouring elements lie in channels.
enum class Across : std::uint8_t {
  one,         ///< all in the same one
  neighbours,  ///< in as many, which follow each other
  any
};

/// Arguments of the kernel, for fewer than 2^30 elements.
struct ChannelJob {
  ChannelNorm norm;
  Across across;
  bool vectors;  ///< eights of x, y and `added` lie at multiples of 16 bytes
  std::uint32_t elements;
  FastDivide by_inner;     ///< elements of a channel that lie together, or eights of them
  FastDivide by_channels;  ///< channels, or eights of them
};

/// What a channel's elements are computed with.
struct Channel {
  float mean, rstd, weight, bias;

  __device__ __forceinline__ Channel() {}
  __device__ __forceinline__ Channel(const ChannelNorm& norm, std::uint32_t c)
      : mean(norm.mean[c]),
        rstd(norm.rstd[c]),
        weight(norm.weight == nullptr ? 1.0F : norm.weight[c]),
        bias(norm.bias == nullptr ? 0.0F : norm.bias[c]) {}

  __device__ __forceinline__ float normalized(float x) const {
    return fmaf(weight * (x - mean), rstd, bias);
  }
};

/// The channels of the `i`-th eight elements.
__device__ __forceinline__ void find_channels(const ChannelJob& job, std::uint32_t i,
                                              Channel (&of)[kStretch]) {
  if (job.across == Across::neighbours) {
    job.by_channels.split(i);
    float numbers[4][kStretch];
    load_columns(job.norm.mean, i * kStretch, 0.0F, numbers[0]);
    load_columns(job.norm.rstd, i * kStretch, 0.0F, numbers[1]);
    load_columns(job.norm.weight, i * kStretch, 1.0F, numbers[2]);
    load_columns(job.norm.bias, i * kStretch, 0.0F, numbers[3]);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      of[j].mean = numbers[0][j];
      of[j].rstd = numbers[1][j];
      of[j].weight = numbers[2][j];
      of[j].bias = numbers[3][j];
    }
    return;
  }
  if (job.across == Across::one) {
    std::uint32_t c = job.by_inner.quotient(i);
    job.by_channels.split(c);
    const Channel channel(job.norm, c);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) of[j] = channel;
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    const std::uint32_t e = i * kStretch + j;
    std::uint32_t c = job.by_inner.quotient(e < job.elements ? e : 0);
    job.by_channels.split(c);
    of[j] = Channel(job.norm, c);
  }
}

/// The `i`-th eight elements, as many of them as there are.
template <ElementType type>
__device__ __forceinline__ void load_item(const ChannelJob& job, const void* array, std::uint32_t i,
                                          float (&x)[kStretch]) {
  using Bits = typename Element<type>::Bits;
  const auto* const at = static_cast<const Bits*>(array) + std::uint64_t{i} * kStretch;
  if (job.vectors) return load_eight<type>(at, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    x[j] = i * kStretch + j < job.elements ? value_of<type>(at[j]) : 0.0F;
  }
}

template <ElementType type>
__device__ __forceinline__ void store_item(const ChannelJob& job, void* array, std::uint32_t i,
                                           const float (&x)[kStretch]) {
  using Bits = typename Element<type>::Bits;
  auto* const at = static_cast<Bits*>(array) + std::uint64_t{i} * kStretch;
  if (job.vectors) return store_eight<type>(at, x);
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (i * kStretch + j < job.elements) at[j] = nearest_bits<type>(x[j]);
  }
}

template <ElementType type>
__device__ __forceinline__ float rounded(float x) {
  return value_of<type>(nearest_bits<type>(x));
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    channel_norm(const ChannelJob job, const void* x, void* y) {
  take_items((job.elements + kStretch - 1) / kStretch, [&](std::int64_t item) {
    const auto i = static_cast<std::uint32_t>(item);
    const ChannelNorm& norm = job.norm;
    float values[kStretch];
    float added[kStretch];
    load_item<type>(job, x, i, values);
    if (norm.added != nullptr) load_item<type>(job, norm.added, i, added);
    unsigned kept = ~0U;
    if (norm.signs != nullptr) kept = static_cast<unsigned>(norm.signs[i]);
    Channel of[kStretch];
    find_channels(job, i, of);
#pragma unroll
    for (int j = 0; j < kStretch; ++j) values[j] = of[j].normalized(values[j]);
    if (norm.added != nullptr) {
#pragma unroll
      for (int j = 0; j < kStretch; ++j) values[j] = rounded<type>(values[j]) + added[j];
    }
    if (norm.relu) {
#pragma unroll
      for (int j = 0; j < kStretch; ++j) {
        // Rounding keeps signs.
        const bool keeps = norm.signs != nullptr ? (kept >> j & 1U) != 0 : !(values[j] <= 0);
        if (!keeps) values[j] = 0;
      }
    }
    store_item<type>(job, y, i, values);
  });
}

/// One launch. @pre it has fewer than 2^30 elements, and the arrays of each channel are complete
bool launch_once(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                 Stream stream) noexcept {
  const auto& [outer, channels, inner, tables] = norm.order;
  const auto is_aligned = [](const void* array) {
    return array == nullptr || is_vector_aligned(array);
  };
  ChannelJob job;
  job.norm = norm;
  job.elements = static_cast<std::uint32_t>(outer * channels * inner);
  job.vectors =
      job.elements % kStretch == 0 && is_aligned(x) && is_aligned(y) && is_aligned(norm.added);
  const bool by_eight = inner == 1 && channels % kStretch == 0 && is_aligned(norm.mean) &&
                        is_aligned(norm.rstd) && is_aligned(norm.weight) && is_aligned(norm.bias);
  job.across = by_eight ? Across::neighbours : inner % kStretch == 0 ? Across::one : Across::any;
  job.by_inner = FastDivide(job.across == Across::one ? inner / kStretch : inner);
  job.by_channels = FastDivide(by_eight ? channels / kStretch : channels);
  return with_element(type, [&](auto is) {
    return launch(channel_norm<is.value>, run_blocks(stream, job.elements), kRunThreads, 0, stream,
                  job, x, y);
  });
}

}  // namespace

bool normalize_channels(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                        Stream stream) noexcept {
  constexpr std::int64_t most = kMaxExtent - 1;
  const auto& [outer, channels, inner, tables] = norm.order;
  if (outer <= 0 || channels <= 0 || inner <= 0) return true;
  const std::int64_t bytes_of_signs = 8;  // so many elements have one
  const std::int64_t some = most / channels / inner / bytes_of_signs * bytes_of_signs;
  if (some == 0 && outer * channels * inner > most) return false;
  for (std::int64_t first = 0; first < outer;) {
    ChannelNorm part = norm;
    part.order.outer = some == 0 ? outer : std::min(some, outer - first);
    const std::int64_t before = first * channels * inner;
    const std::size_t offset = static_cast<std::size_t>(before) * element_size(type);
    if (norm.added != nullptr) part.added = static_cast<const std::byte*>(norm.added) + offset;
    if (norm.signs != nullptr) part.signs = norm.signs + before / bytes_of_signs;
    if (!launch_once(type, part, static_cast<const std::byte*>(x) + offset,
                     static_cast<std::byte*>(y) + offset, stream)) {
      return false;
    }
    first += part.order.outer;
  }
  return true;
}

}  // namespace cinch::codecs::cuda
