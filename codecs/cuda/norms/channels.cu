// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/norms/channels.h"
#include "codecs/cuda/norms/columns.cuh"

namespace cinch::codecs::cuda {
namespace {

/// Arguments of the kernels, for fewer than 2^30 elements.
struct ChannelJob {
  ChannelNorm norm;
  std::uint32_t elements;
  // Of channel_norm:
  bool vectors;         ///< eights of x, y and `added` lie at multiples of 16 bytes
  bool of_one;          ///< eight neighbouring elements are of one channel
  FastDivide by_inner;  ///< elements of a channel that lie together, or eights of them
  FastDivide by_channels;
  // Of channel_norm_rows:
  FastDivide by_eights;  ///< of a row of channels
  std::uint32_t rows;
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
  if (job.of_one) {
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

template <ElementType type>
__device__ __forceinline__ float rounded(float x) {
  return value_of<type>(nearest_bits<type>(x));
}

/// All steps, of eight elements. @param kept bits of those that a ReLU keeps, if there are signs
template <ElementType type>
__device__ __forceinline__ void apply_steps(const ChannelNorm& norm, const Channel (&of)[kStretch],
                                            const float (&added)[kStretch], unsigned kept,
                                            float (&x)[kStretch]) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) x[j] = of[j].normalized(x[j]);
  if (norm.added != nullptr) {
#pragma unroll
    for (int j = 0; j < kStretch; ++j) x[j] = rounded<type>(x[j]) + added[j];
  }
  if (!norm.relu) return;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    // Rounding keeps signs.
    const bool keeps = norm.signs != nullptr ? (kept >> j & 1U) != 0 : !(x[j] <= 0);
    if (!keeps) x[j] = 0;
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    channel_norm(const ChannelJob job, const void* x, void* y) {
  take_items((job.elements + kStretch - 1) / kStretch, [&](std::int64_t item) {
    const auto i = static_cast<std::uint32_t>(item);
    float values[kStretch];
    float added[kStretch];
    load_some<type>(x, i, job.elements, job.vectors, values);
    if (job.norm.added != nullptr) {
      load_some<type>(job.norm.added, i, job.elements, job.vectors, added);
    }
    unsigned kept = 0;
    if (job.norm.signs != nullptr) kept = static_cast<unsigned>(job.norm.signs[i]);
    Channel of[kStretch];
    find_channels(job, i, of);
    apply_steps<type>(job.norm, of, added, kept, values);
    store_some<type>(y, i, job.elements, job.vectors, values);
  });
}

/// Rows whose elements a thread takes together: it loads what their channels are computed with
/// once.
template <ElementType type>
inline constexpr unsigned kRowsTogether = 16 / sizeof(typename Element<type>::Bits) / 2;

/// Where channels lie side by side, whole eights of them. @pre all arrays lie at multiples of 16
/// bytes
template <ElementType type>
__global__ void __launch_bounds__(kRunThreads, 2)
    channel_norm_rows(const ChannelJob job, const void* x, void* y) {
  constexpr unsigned kRows = kRowsTogether<type>;
  constexpr int kVectors = kStretchWords<type> / 4;
  const ChannelNorm& norm = job.norm;
  const std::uint32_t eights = job.by_eights.divisor();
  take_items((job.rows + kRows - 1) / kRows * eights, [&](std::int64_t item) {
    auto column = static_cast<std::uint32_t>(item);
    const std::uint32_t row = job.by_eights.split(column) * kRows;
    const std::uint32_t first = row * eights + column;
    const unsigned count = job.rows - row < kRows ? job.rows - row : kRows;
    uint4 of_x[kRows][kVectors];
    uint4 of_added[kRows][kVectors];
    unsigned kept[kRows] = {};
#pragma unroll
    for (unsigned k = 0; k < kRows; ++k) {
      if (k >= count) break;
      const std::uint64_t i = first + k * eights;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        of_x[k][v] = load_vector(static_cast<const uint4*>(x) + i * kVectors + v);
        if (norm.added != nullptr) {
          of_added[k][v] = load_vector(static_cast<const uint4*>(norm.added) + i * kVectors + v);
        }
      }
      if (norm.signs != nullptr) kept[k] = static_cast<unsigned>(norm.signs[i]);
    }
    float numbers[4][kStretch];
    load_columns(norm.mean, column * kStretch, 0.0F, numbers[0]);
    load_columns(norm.rstd, column * kStretch, 0.0F, numbers[1]);
    load_columns(norm.weight, column * kStretch, 1.0F, numbers[2]);
    load_columns(norm.bias, column * kStretch, 0.0F, numbers[3]);
    Channel of[kStretch];
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      of[j].mean = numbers[0][j];
      of[j].rstd = numbers[1][j];
      of[j].weight = numbers[2][j];
      of[j].bias = numbers[3][j];
    }
#pragma unroll
    for (unsigned k = 0; k < kRows; ++k) {
      if (k >= count) break;
      float values[kStretch];
      float added[kStretch] = {};
      values_of_vectors<type>(of_x[k], values);
      if (norm.added != nullptr) values_of_vectors<type>(of_added[k], added);
      apply_steps<type>(norm, of, added, kept[k], values);
      store_eight<type>(static_cast<uint4*>(y) + std::uint64_t{first + k * eights} * kVectors,
                        values);
    }
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
  job.rows = static_cast<std::uint32_t>(outer);
  job.vectors =
      job.elements % kStretch == 0 && is_aligned(x) && is_aligned(y) && is_aligned(norm.added);
  const bool by_rows = job.vectors && inner == 1 && channels % kStretch == 0 &&
                       is_aligned(norm.mean) && is_aligned(norm.rstd) && is_aligned(norm.weight) &&
                       is_aligned(norm.bias);
  job.of_one = inner % kStretch == 0;
  job.by_inner = FastDivide(job.of_one ? inner / kStretch : inner);
  job.by_channels = FastDivide(channels);
  job.by_eights = FastDivide(std::max<std::int64_t>(channels / kStretch, 1));
  return with_element(type, [&](auto is) {
    const std::int64_t turns = by_rows ? kRowsTogether<is.value> : 1;
    return launch(by_rows ? channel_norm_rows<is.value> : channel_norm<is.value>,
                  run_blocks(stream, (job.elements + turns - 1) / turns), kRunThreads, 0, stream,
                  job, x, y);
  });
}

}  // namespace

bool normalize_channels(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                        Stream stream) noexcept {
  constexpr std::int64_t most = kMaxExtent - 1;
  const auto& [outer, channels, inner, tables] = norm.order;
  if (outer <= 0 || channels <= 0 || inner <= 0) return true;
  constexpr std::int64_t in_byte = 8;  // elements whose signs a byte has
  const std::int64_t some = most / channels / inner / in_byte * in_byte;
  if (some == 0 && outer * channels * inner > most) return false;
  for (std::int64_t first = 0; first < outer;) {
    ChannelNorm part = norm;
    part.order.outer = some == 0 ? outer : std::min(some, outer - first);
    const std::int64_t before = first * channels * inner;
    const std::size_t offset = static_cast<std::size_t>(before) * element_size(type);
    if (norm.added != nullptr) part.added = static_cast<const std::byte*>(norm.added) + offset;
    if (norm.signs != nullptr) part.signs = norm.signs + before / in_byte;
    if (!launch_once(type, part, static_cast<const std::byte*>(x) + offset,
                     static_cast<std::byte*>(y) + offset, stream)) {
      return false;
    }
    first += part.order.outer;
  }
  return true;
}

}  // namespace cinch::codecs::cuda
