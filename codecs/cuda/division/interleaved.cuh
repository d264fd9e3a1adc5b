// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>

#include "codecs/cuda/division/read.cuh"

/// DIVISION's decoding of planes whose elements lie side by side, as channels-last tensors have
/// them. A thread restores eight pixels, whose codes are neighbours in the encoded data, of eight
/// planes: one or two vectors of 16 bytes for each pixel. A warp restores 32 planes over a run of
/// pixels. Where vectors of planes can't be stored, a thread takes one plane.
namespace cinch::codecs::cuda {

inline constexpr int kSidePlanes = kWarp;
inline constexpr int kSideReach = 8;  ///< pixels of a thread
/// From a thread's first vector of planes to its second one: the vectors of neighbouring threads
/// lie side by side.
inline constexpr std::uint32_t kSideJump = kSidePlanes / 2;

/// Planes of a thread that stores vectors of so many, or single elements.
template <int kVector>
inline constexpr int kThreadPlanes = kVector == 1 ? 1 : 8;

/// The largest plane whose bits, those of all planes from a thread's first to its last, 32 bits
/// count.
inline constexpr std::int32_t kMaxSidePlane = 1 << 24;

/// The work of all threads: pixels in groups, one sample's after another's, times planes. A group
/// is what a block covers of a row if that is 5 to 8 pixels, so that it has one mean; otherwise
/// eight pixels of the plane.
struct SideTasks {
  FastDivide by_planes;      ///< pieces of 32 planes, or planes
  FastDivide by_groups;      ///< groups of a plane
  FastDivide by_row_groups;  ///< groups of a row
  std::uint32_t row;         ///< pixels of a row, or of a plane
  std::uint32_t width;       ///< pixels of a group
  std::uint32_t groups;
  std::uint32_t threads;

  /// @param each planes of a thread
  SideTasks(const DivisionJob& job, int each) noexcept {
    const bool by_block = job.cover_factor[2] == 1 && job.blocks[2] > 1 &&
                          job.block[2] > kSideReach / 2 && job.block[2] <= kSideReach;
    const bool by_row = by_block || (job.blocks[2] == 1 && job.block_count > 1);
    row = static_cast<std::uint32_t>(by_row ? job.extent[2] : job.size);
    width = by_block ? static_cast<std::uint32_t>(job.block[2]) : std::uint32_t{kSideReach};
    const std::int64_t row_groups = (row + width - 1) / width;
    const std::int64_t plane_groups = job.size / row * row_groups;
    const std::int64_t pieces = (job.layout.inner + kSidePlanes - 1) / kSidePlanes;
    by_planes = FastDivide(each == 1 ? job.layout.inner : pieces);
    by_groups = FastDivide(plane_groups);
    by_row_groups = FastDivide(row_groups);
    groups = static_cast<std::uint32_t>(plane_groups * job.layout.outer);
    const std::int64_t warps = (groups + each - 1) / each * pieces;
    threads = static_cast<std::uint32_t>(each == 1 ? groups * job.layout.inner
                                                   : warps * std::int64_t{kWarp});
  }

  /// Whether 31 bits count them.
  static bool are_few(const DivisionJob& job) noexcept {
    return job.size <= kMaxSidePlane && job.few;
  }
};

/// A thread's planes: their ranges, the codes of eight pixels, and what the codes are added to.
template <ElementType type, int kVector>
struct SidePlanes {
  static constexpr int kPlanes = kThreadPlanes<kVector>;
  static constexpr int kWords = (kPlanes + 1) / kPerWord<type>;

  std::uint32_t jump;  ///< from the first vector of planes to the second one, which may be the same
  float lo[kPlanes], step[kPlanes], base[kPlanes];
  std::uint32_t codes[kPlanes], signs[kPlanes];

  /// Plane `v` counted from the first one.
  __device__ __forceinline__ std::uint32_t plane(int v) const {
    return static_cast<std::uint32_t>(v % kVector) + (v < kVector ? 0 : jump);
  }

  __device__ __forceinline__ void load_ranges(const DivisionJob& job, const DivisionRead& read,
                                              std::int64_t first) {
    const std::byte* const from = read.in + job.sections.ranges + 4 * first;
    std::uint32_t ranges[kPlanes];
    if (kVector > 1 && read.whole_ranges) {
#pragma unroll
      for (int v = 0; v + 3 < kPlanes; v += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from + 4 * plane(v));
        ranges[v] = four.x;
        ranges[v + 1] = four.y;
        ranges[v + 2] = four.z;
        ranges[v + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int v = 0; v < kPlanes; ++v) {
        const auto* const halves = reinterpret_cast<const std::uint16_t*>(from + 4 * plane(v));
        ranges[v] = halves[0] | std::uint32_t{halves[1]} << 16;
      }
    }
#pragma unroll
    for (int v = 0; v < kPlanes; ++v) {
      lo[v] = float_of_bits(ranges[v] << 16);
      step[v] = float_of_bits(ranges[v] & 0xFFFF0000U);
    }
  }

  /// For signs, whose codes are 1 and 0.
  __device__ __forceinline__ void set_plain() {
#pragma unroll
    for (int v = 0; v < kPlanes; ++v) {
      lo[v] = base[v] = 0.0F;
      step[v] = 1.0F;
    }
  }

  /// NaN when one of the planes is poisoned.
  __device__ __forceinline__ float health() const {
    float sum = step[0];
#pragma unroll
    for (int v = 1; v < kPlanes; ++v) sum += step[v];
    return sum;
  }

  /// Loads up to 32 bits an element of each plane. @param element logical index of the first
  /// plane's first element that is read
  __device__ __forceinline__ void load_bits(const DivisionRead& read, std::int64_t at,
                                            std::int64_t element, std::uint32_t bits,
                                            std::int32_t size,
                                            std::uint32_t (&streams)[kPlanes]) const {
    const std::uint32_t plane_bits = static_cast<std::uint32_t>(size) * bits;
    const BitReader reader(read, static_cast<std::uint64_t>(8 * at + element * bits));
    if (reader.reaches(plane(kPlanes - 1) * plane_bits)) {
#pragma unroll
      for (int v = 0; v < kPlanes; ++v) streams[v] = reader.load(plane(v) * plane_bits);
    } else {
#pragma unroll
      for (int v = 0; v < kPlanes; ++v) streams[v] = reader.load_last(plane(v) * plane_bits);
    }
  }

  /// @param means of the block, of the first plane
  __device__ __forceinline__ void load_bases(const DivisionJob& job, const std::uint16_t* means) {
#pragma unroll
    for (int v = 0; v < kPlanes; ++v) {
      if (v == kVector) means += (std::int64_t{jump} - kVector) * job.block_count;
      base[v] = float_of_bf16(*means) + lo[v];
      means += job.block_count;
    }
  }

  /// The words of one pixel. @param shift where its codes begin
  __device__ __forceinline__ void restore(std::uint32_t shift, std::uint32_t mask, bool masked,
                                          std::uint32_t pixel,
                                          std::uint32_t (&words)[kWords]) const {
    float x[kPlanes + 1] = {};
#pragma unroll
    for (int v = 0; v < kPlanes; ++v) {
      x[v] = fused_value(base[v], step[v], float_of(codes[v] >> shift & mask));
    }
    if (masked) {
#pragma unroll
      for (int v = 0; v < kPlanes; ++v) {
        if ((signs[v] >> pixel & 1U) == 0) x[v] = 0.0F;
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      words[w] = word_of<type>(x[w * kPerWord<type>], x[(w + 1) * kPerWord<type> - 1]);
    }
  }

  /// Poisons elements of poisoned planes.
  __device__ __forceinline__ void spoil(std::uint32_t (&words)[kWords]) const {
    constexpr std::uint32_t kFirst = kPerWord<type> == 1 ? 0xFFFFFFFFU : 0xFFFFU;
#pragma unroll
    for (int v = 0; v < kPlanes; ++v) {
      const std::uint32_t part = v % kPerWord<type> == 0 ? kFirst : ~kFirst;
      const std::uint32_t word = words[v / kPerWord<type>];
      if (step[v] != step[v]) words[v / kPerWord<type>] = (word & ~part) | (poison<type>() & part);
    }
  }

  /// Stores the words of one pixel. @param to the first plane's element
  __device__ __forceinline__ void store(const std::uint32_t (&words)[kWords],
                                        typename Element<type>::Bits* to) const {
    if constexpr (kVector == 1) {
      *to = static_cast<typename Element<type>::Bits>(words[0]);
    } else {
#pragma unroll
      for (int v = 0; v < kPlanes; v += kVector) {
        const std::uint32_t* const of = words + v / kPerWord<type>;
        store_vector(to + plane(v), uint4{of[0], of[1], of[2], of[3]});
      }
    }
  }
};

/// The block of pixel `e` of a plane. @param run set to how many pixels from `e` on it covers
__device__ __forceinline__ std::uint32_t block_of_pixel(const DivisionJob& job, std::uint32_t e,
                                                        std::int32_t& run) {
  std::uint32_t w = e;
  std::uint32_t h = job.by_width.split(w);
  const std::uint32_t d = job.by_height.split(h);
  const std::uint32_t column = job.cover(2, w);
  run = 1;
  if (job.block_count == 1) {
    run = INT_MAX;
  } else if (job.cover_factor[2] == 1) {
    const auto end = static_cast<std::int32_t>(column + 1) * job.block[2];
    run = (end < job.extent[2] ? end : job.extent[2]) - static_cast<std::int32_t>(w);
  }
  return (job.cover(0, d) * static_cast<std::uint32_t>(job.blocks[1]) + job.cover(1, h)) *
             static_cast<std::uint32_t>(job.blocks[2]) +
         column;
}

/// What one thread of SideTasks::threads does. @param inner its number
template <ElementType type, int kVector>
__device__ __forceinline__ void decode_side_task(const DivisionJob& job, const SideTasks& tasks,
                                                 const DivisionRead& read, std::uint32_t inner,
                                                 void* target) {
  using Bits = typename Element<type>::Bits;
  std::uint32_t group = 0;
  if constexpr (kVector == 1) {
    group = tasks.by_planes.split(inner);
  } else {
    constexpr unsigned kPlanes = kThreadPlanes<kVector>;
    constexpr unsigned kLanes = kSidePlanes / kPlanes;  // that take the same pixels
    const unsigned lane = inner % kWarp;
    inner /= kWarp;
    group = tasks.by_planes.split(inner) * kPlanes + lane / kLanes;
    inner = inner * kSidePlanes + lane % kLanes * kVector;
  }
  if (group >= tasks.groups || inner >= static_cast<std::uint32_t>(job.layout.inner)) return;
  const std::uint32_t outer = tasks.by_groups.split(group);
  const std::uint32_t row = tasks.by_row_groups.split(group);
  const std::uint32_t column = group * tasks.width;
  const std::uint32_t pixel = row * tasks.row + column;
  const std::uint32_t there = tasks.row - column;
  const std::uint32_t left = there < tasks.width ? there : tasks.width;

  const std::uint32_t first = outer * static_cast<std::uint32_t>(job.layout.inner) + inner;
  const std::uint32_t element = first * static_cast<std::uint32_t>(job.size) + pixel;
  const auto bits = static_cast<std::uint32_t>(read.bits);
  const std::uint32_t mask = (1U << bits) - 1;
  const int at_once = read.bits > 4 ? 4 : kSideReach;  // pixels whose codes 32 bits hold
  SidePlanes<type, kVector> planes;
  planes.jump = inner + kSideJump < static_cast<std::uint32_t>(job.layout.inner) ? kSideJump : 0;
  if (read.values) {
    planes.load_ranges(job, read, first);
  } else {
    planes.set_plain();
  }
  if (read.masked) {
    planes.load_bits(read, job.sections.signs, element, 1, job.size, planes.signs);
  }
  const float health = planes.health();
  Bits* to = static_cast<Bits*>(target) + outer * job.layout.outer_stride +
             pixel * job.pixel_stride + inner;
  std::int32_t run = read.values ? 0 : INT_MAX;
#pragma unroll
  for (std::uint32_t i = 0; i < kSideReach; ++i) {
    if (i >= left) return;
    if (i == 0 || (i == 4 && at_once == 4)) {
      planes.load_bits(read, read.codes, element + i, bits, job.size, planes.codes);
    }
    if (run == 0) {
      const std::uint32_t block = block_of_pixel(job, pixel + i, run);
      planes.load_bases(job, read.means(job, first) + block);
    }
    --run;
    std::uint32_t words[SidePlanes<type, kVector>::kWords];
    planes.restore((at_once == 4 ? i % 4 : i) * bits, mask, read.masked, i, words);
    if (__builtin_expect(health != health, 0)) planes.spoil(words);
    planes.store(words, to);
    to += job.pixel_stride;
  }
}

/// Any number of blocks of threads will do.
/// @param kVector planes that are stored at once: as many as 16 bytes hold if job.side_by_side, or
/// 1
/// @pre SideTasks::are_few, job.pixel_stride > 0 and layout.inner_stride == 1
template <ElementType type, int kVector>
__global__ void __launch_bounds__(kDecodeThreads, kDecodeBlocks)
    division_decode_interleaved(const DivisionJob job, const SideTasks tasks,
                                const DivisionRead read, void* target) {
  for (std::uint32_t task = blockIdx.x * kDecodeThreads + threadIdx.x; task < tasks.threads;
       task += gridDim.x * kDecodeThreads) {
    decode_side_task<type, kVector>(job, tasks, read, task, target);
  }
}

}  // namespace cinch::codecs::cuda
