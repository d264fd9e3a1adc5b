// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/arithmetic/curvature_terms.h"
#include "codecs/cuda/curvature/without_bias.h"
#include "codecs/cuda/elements/nearest.cuh"
#include "codecs/cuda/elements/quantize.cuh"

namespace cinch::codecs::cuda {
namespace {

/// Arguments of the kernel. Elements are counted in units of eight, or of one.
struct SmoothJob {
  Smooth function;
  bool eights;  ///< eight elements together, which lie at multiples of 16 bytes, have one step, or
                ///< eight one behind the other
  std::int32_t elements;
  std::int32_t units;
  std::int32_t stride;    ///< units from row to row
  std::int32_t in_plane;  ///< units before the first one in its plane
  std::int32_t groups;    ///< of a plane
  FastDivide by_row;      ///< units of a row
  FastDivide by_plane;    ///< units of a plane
  FastDivide by_group;    ///< units of a group; interleaved: of a row of one element each
  bool interleaved;
  const std::uint32_t* ranges;  ///< of the first plane
};

struct Device {
  /// For what is neither subnormal nor near the largest float32: CUDA's division without its branch
  /// for other numbers.
  static __device__ __forceinline__ float reciprocal(float x) {
#ifdef __CUDA_ARCH__
    return corrected_reciprocal(x, approximate_reciprocal(x));
#else
    return 1.0F / x;
#endif
  }
  static __device__ __forceinline__ float least(float x, float bound) {
    return fminf(x, bound);
  }
  static __device__ __forceinline__ float positive(float x) {
#ifdef __CUDA_ARCH__
    return fmaxf(x, 0.0F);  // +0 of either 0
#else
    return x > 0.0F ? x : 0.0F;
#endif
  }
};

/// @param unit Elements that a thread takes together @param alike Whether these have one step
template <ElementType type, Smooth function, int unit, bool alike>
__device__ __forceinline__ void apply(const SmoothJob& job, const void* x, void* y) {
  using Bits = typename Element<type>::Bits;
  const std::uint32_t threads = gridDim.x * kRunThreads;
#pragma unroll 1
  for (std::uint32_t i = blockIdx.x * kRunThreads + threadIdx.x;
       i < static_cast<std::uint32_t>(job.units); i += threads) {
    std::uint32_t at = i;
    const std::uint32_t row = job.by_row.split(at);
    at += row * static_cast<std::uint32_t>(job.stride);
    std::uint32_t place = at + static_cast<std::uint32_t>(job.in_plane);
    const std::uint32_t plane = job.by_plane.split(place);
    std::uint32_t group = place;
    const std::uint32_t of_plane = job.by_group.split(group);
    if (!job.interleaved) group = of_plane;
    if (!alike) group *= unit;
    const std::uint32_t* const ranges =
        job.ranges + plane * static_cast<std::uint32_t>(job.groups) + group;
    const auto factor_at = [&](int j) {
      return curvature::factor(float_of_bits(ranges[alike ? 0 : j] & 0xFFFF0000U));
    };
    const Bits* const from = static_cast<const Bits*>(x) + std::uint64_t{at} * unit;
    Bits* const to = static_cast<Bits*>(y) + std::uint64_t{i} * unit;
    const int left = job.elements - static_cast<std::int32_t>(i) * unit;
    if (unit == kStretch && left >= kStretch) {
      float values[kStretch];
      load_eight<type>(from, values);
#pragma unroll
      for (int j = 0; j < kStretch; ++j) {
        values[j] = curvature::without_bias<function, Device>(values[j], factor_at(j));
      }
      store_eight<type>(to, values);
    } else {
#pragma unroll 1
      for (int j = 0; j < unit && j < left; ++j) {
        to[j] = nearest_bits<type>(
            curvature::without_bias<function, Device>(value_of<type>(from[j]), factor_at(j)));
      }
    }
  }
}

template <ElementType type, Smooth function>
__device__ __forceinline__ void apply_in_units(const SmoothJob& job, const void* x, void* y) {
  if (!job.eights) {
    apply<type, function, 1, true>(job, x, y);
  } else if (job.interleaved) {
    apply<type, function, kStretch, false>(job, x, y);
  } else {
    apply<type, function, kStretch, true>(job, x, y);
  }
}

// One for all functions, so that it can be loaded before it is known which there will be.
template <ElementType type>
__global__ void __launch_bounds__(kRunThreads)
    smooth_without_bias(const SmoothJob job, const void* x, void* y) {
  switch (job.function) {
    case Smooth::gelu:
      return apply_in_units<type, Smooth::gelu>(job, x, y);
    case Smooth::gelu_tanh:
      return apply_in_units<type, Smooth::gelu_tanh>(job, x, y);
    case Smooth::silu:
      return apply_in_units<type, Smooth::silu>(job, x, y);
  }
}

/// Units that a thread takes where blocks aren't few: more, and small tensors would not fill a
/// device; fewer, and the instructions before a thread's first unit would count.
constexpr std::int64_t kUnitsEach = 2;

// A launch counts the elements that it reaches, with those between rows and those before the first
// in its plane, in 31 bits.
constexpr std::int64_t kReach = kMaxExtent;
constexpr std::int64_t kMostPlane = kMaxExtent / 2;

/// One launch. @pre it reaches kReach elements at most
bool launch_once(Smooth function, ElementType type, const GroupRanges& of, const Rows& rows,
                 const void* x, void* y, Stream stream) noexcept {
  const std::int64_t elements = rows.rows * rows.row;
  const std::int64_t groups = of.order.groups_of_plane();
  const std::int64_t plane = rows.first / of.order.plane;
  const std::int64_t in_plane = rows.first % of.order.plane;
  const bool one_row = rows.rows == 1;
  SmoothJob job;
  job.function = function;
  job.interleaved = of.order.interleaved;
  job.eights = of.order.plane % kStretch == 0 &&
               (!of.order.interleaved || groups % kStretch == 0) && in_plane % kStretch == 0 &&
               is_vector_aligned(x) && is_vector_aligned(y) &&
               (one_row || (rows.row % kStretch == 0 && rows.stride % kStretch == 0));
  const std::int64_t unit = job.eights ? kStretch : 1;
  job.elements = static_cast<std::int32_t>(elements);
  job.units = static_cast<std::int32_t>((elements + unit - 1) / unit);
  job.stride = one_row ? 0 : static_cast<std::int32_t>(rows.stride / unit);
  job.in_plane = static_cast<std::int32_t>(in_plane / unit);
  job.groups = static_cast<std::int32_t>(groups);
  job.by_row = FastDivide(one_row ? job.units : rows.row / unit);
  job.by_plane = FastDivide(of.order.plane / unit);
  // A group that is larger than its plane ends with it.
  job.by_group =
      FastDivide((of.order.interleaved ? groups : std::min(of.order.group, kMostPlane)) / unit);
  job.ranges = static_cast<const std::uint32_t*>(of.ranges) + plane * groups;
  const unsigned blocks =
      blocks_in(stream, blocks_for(job.units, kUnitsEach * kRunThreads), kRunThreads);
  return with_any_element(type, [&](auto is) {
    return launch(smooth_without_bias<is.value>, blocks, kRunThreads, 0, stream, job, x, y);
  });
}

}  // namespace

bool apply_without_bias(Smooth function, ElementType type, const GroupRanges& of, const Rows& rows,
                        const void* x, void* y, Stream stream) noexcept {
  if (rows.rows <= 0 || rows.row <= 0) return true;
  const bool one_row = rows.rows == 1;
  const std::int64_t apart = one_row ? rows.row : std::max(rows.row, rows.stride);
  if (of.order.plane > kMostPlane || (!one_row && apart > kReach / 2)) return false;
  const std::int64_t row = std::min(rows.row, kReach);
  const std::int64_t some = one_row ? 1 : kReach / apart;
  const auto size = static_cast<std::int64_t>(element_size(type));
  for (std::int64_t r = 0; r < rows.rows; r += some) {
    for (std::int64_t k = 0; k < rows.row; k += row) {
      const std::int64_t at = r * rows.stride + k;
      const Rows part = {rows.first + at, std::min(some, rows.rows - r),
                         std::min(row, rows.row - k), rows.stride};
      if (!launch_once(function, type, of, part, static_cast<const std::byte*>(x) + at * size,
                       static_cast<std::byte*>(y) + (r * rows.row + k) * size, stream)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace cinch::codecs::cuda
