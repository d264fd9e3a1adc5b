// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/norms/columns.cuh"
#include "codecs/cuda/norms/normalize.h"

namespace cinch::codecs::cuda {
namespace {

/// Arguments of the kernel. Elements are counted in units of eight, or of one.
struct NormJob {
  RowNorm norm;
  bool eights;  ///< rows consist of eights, and all arrays lie at multiples of 16 bytes
  std::int64_t units;
  FastDivide by_row;  ///< units of a row
};

__device__ __forceinline__ float element_norm(const RowNorm& norm, float x, float mean, float rstd,
                                              float weight, float bias) {
  const float y = (x - mean) * rstd;
  if (norm.bias == nullptr) return y * weight;
  return norm.weight == nullptr ? y + bias : fmaf(y, weight, bias);
}

template <ElementType from, ElementType to>
__global__ void __launch_bounds__(kRunThreads)
    row_norm(const NormJob job, const void* source, void* target) {
  const auto* const x = static_cast<const typename Element<from>::Bits*>(source);
  auto* const y = static_cast<typename Element<to>::Bits*>(target);
  const RowNorm& norm = job.norm;
  take_items(job.units, [&](std::int64_t i) {
    auto column = static_cast<std::uint32_t>(i);
    const std::uint32_t row = job.by_row.split(column);
    const float mean = norm.mean == nullptr ? 0.0F : norm.mean[row];
    const float rstd = norm.rstd[row];
    if (job.eights) {
      float values[kStretch];
      float weights[kStretch];
      float biases[kStretch];
      load_eight<from>(x + i * kStretch, values);
      load_columns(norm.weight, column * kStretch, 1.0F, weights);
      load_columns(norm.bias, column * kStretch, 0.0F, biases);
#pragma unroll
      for (int j = 0; j < kStretch; ++j) {
        values[j] = element_norm(norm, values[j], mean, rstd, weights[j], biases[j]);
      }
      store_eight<to>(y + i * kStretch, values);
      return;
    }
    const float weight = norm.weight == nullptr ? 1.0F : norm.weight[column];
    const float bias = norm.bias == nullptr ? 0.0F : norm.bias[column];
    y[i] = nearest_bits<to>(element_norm(norm, value_of<from>(x[i]), mean, rstd, weight, bias));
  });
}

/// One launch. @pre it has fewer than 2^31 elements
bool launch_once(ElementType from, ElementType to, const RowNorm& norm, const void* x, void* y,
                 Stream stream) noexcept {
  NormJob job;
  job.norm = norm;
  job.eights = norm.row % kStretch == 0;
  for (const void* array : {x, static_cast<const void*>(y), static_cast<const void*>(norm.weight),
                            static_cast<const void*>(norm.bias)}) {
    job.eights = job.eights && (array == nullptr || is_vector_aligned(array));
  }
  const std::int64_t unit = job.eights ? kStretch : 1;
  job.units = norm.rows * norm.row / unit;
  job.by_row = FastDivide(norm.row / unit);
  const unsigned blocks = blocks_in(stream, blocks_for(job.units, kRunThreads), kRunThreads);
  return with_element(from, [&](auto is) {
    return with_element(to, [&](auto becomes) {
      return launch(row_norm<is.value, becomes.value>, blocks, kRunThreads, 0, stream, job, x, y);
    });
  });
}

}  // namespace

bool normalize_rows(ElementType from, ElementType to, const RowNorm& norm, const void* x, void* y,
                    Stream stream) noexcept {
  constexpr std::int64_t most = kMaxExtent;
  if (norm.rows <= 0 || norm.row <= 0) return true;
  if (norm.row >= most / 2) return false;
  const std::int64_t some = most / norm.row;
  for (std::int64_t first = 0; first < norm.rows; first += some) {
    RowNorm part = norm;
    part.rows = std::min(some, norm.rows - first);
    if (part.mean != nullptr) part.mean += first;
    part.rstd += first;
    const auto elements = static_cast<std::size_t>(first * norm.row);
    if (!launch_once(from, to, part,
                     static_cast<const std::byte*>(x) + elements * element_size(from),
                     static_cast<std::byte*>(y) + elements * element_size(to), stream)) {
      return false;
    }
  }
  return true;
}

}  // namespace cinch::codecs::cuda
