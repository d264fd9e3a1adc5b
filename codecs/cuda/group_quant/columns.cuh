// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <numeric>

#include "codecs/cuda/group_quant/encode.cuh"
#include "codecs/cuda/group_quant/samples.cuh"

/// Encodes channels-last samples whose channels are whole stretches, four by four, but no whole
/// groups. A thread keeps the same eight pixels of as many channels as fill 16 bytes in its
/// registers. A block takes whole columns of them, which are whole groups. Only bounds go through
/// shared memory.
namespace cinch::codecs::cuda {

/// Threads of a block, at most: a column of 56 x 56 pixels.
inline constexpr unsigned kColumnThreads = 448;

/// How threads share the work.
struct GroupColumns {
  std::int64_t pixel_stride, sample_stride;  ///< in elements
  std::uint32_t stretches;                   ///< of a channel
  std::uint32_t vectors;                     ///< of a pixel
  std::uint32_t together;                    ///< columns of a block
  /// Logarithm of the neighbouring lanes whose stretches are of one group in each channel.
  std::uint32_t unit_shift;
  FastDivide by_stretches;
  FastDivide by_blocks;  ///< of a sample
  FastDivide by_units;   ///< of a channel
  FastDivide by_groups;  ///< of a column
  std::uint32_t count;   ///< of blocks; 0: there can be none
  unsigned threads;      ///< of a block

  GroupColumns(const GroupJob& job, const SamplesLast& samples, std::size_t element) noexcept
      : pixel_stride(samples.pixel_stride), sample_stride(samples.sample_stride), count(0) {
    const auto vector = static_cast<std::int64_t>(16 / element);
    const std::int64_t of_channel = samples.pixels / kStretch;
    // Channels that are whole groups are encoded in windows, which read whole sectors (tiles.cuh).
    const bool serves = samples.vectors && samples.pixels % (4 * kStretch) == 0 &&
                        of_channel % kWarp != 0 && of_channel <= kColumnThreads &&
                        vector * of_channel % kWarp == 0 && job.usual_bits() != 0;
    if (!serves) return;
    stretches = static_cast<std::uint32_t>(of_channel);
    vectors = static_cast<std::uint32_t>(samples.channels / vector);
    const std::int64_t unit = std::gcd(of_channel, std::int64_t{kWarp});
    unit_shift = static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint32_t>(unit)));
    together = std::min(kColumnThreads / stretches, vectors);
    threads = (together * stretches + kWarp - 1) / kWarp * kWarp;
    const std::int64_t blocks = (vectors + together - 1) / together;
    if (job.planes * blocks > kMaxBlocks) return;
    by_stretches = FastDivide(stretches);
    by_blocks = FastDivide(blocks);
    by_units = FastDivide(stretches >> unit_shift);
    by_groups = FastDivide(vector * of_channel / kWarp);
    count = static_cast<std::uint32_t>(job.planes * blocks);
  }

 private:
  static constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;  ///< for FastDivide
};

/// Where a group's range begins, and CodePacker::share_of: less than 0 if it can't be held.
struct GroupScale {
  float lo, share;
};

/// A block for some columns of a sample, from the `first_block`-th on. @param kBits
/// job.usual_bits()
template <ElementType type, int kBits>
__global__ void __launch_bounds__(kColumnThreads, 2)
    group_quant_encode_columns(const GroupJob job, const GroupColumns columns,
                               std::uint32_t first_block, const void* source, std::byte* out,
                               Result* result) {
  using Bits = typename Element<type>::Bits;
  constexpr int kVector = Element<type>::kPerVector;
  constexpr unsigned kLeastUnit = 4;
  __shared__ FloatBounds of_units[kVector * kColumnThreads / kLeastUnit];
  __shared__ GroupScale of_groups[kVector * kColumnThreads / kWarp];
  store_group_head(job, out, 0, result);

  std::uint32_t block = first_block + blockIdx.x;
  const std::uint32_t sample = columns.by_blocks.split(block);
  // This thread's stretch in each channel of its column.
  std::uint32_t stretch = threadIdx.x;
  const std::uint32_t column = columns.by_stretches.split(stretch);
  const std::uint32_t vector = block * columns.together + column;
  const bool exists = column < columns.together && vector < columns.vectors;

  EightPixels<type> pixels;
  const auto* from = static_cast<const Bits*>(source) + sample * columns.sample_stride +
                     vector * kVector + std::int64_t{stretch} * kStretch * columns.pixel_stride;
#pragma unroll
  for (int p = 0; p < kStretch; ++p) {
    uint4 v = {0, 0, 0, 0};
    if (exists) v = load_vector(from);
    pixels.of_pixel[p][0] = v.x;
    pixels.of_pixel[p][1] = v.y;
    pixels.of_pixel[p][2] = v.z;
    pixels.of_pixel[p][3] = v.w;
    from = kept(from + columns.pixel_stride);
  }

  // Bounds of units. A block has `units` of them in each channel of all of its columns.
  const std::uint32_t units = blockDim.x >> columns.unit_shift;
  const std::uint32_t lanes = 1U << columns.unit_shift;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    std::uint32_t words[kStretchWords<type>];
    pixels.plane(v, words);
    GroupRange<type> bounds;
    bounds.add(words);
    bounds.join(lanes);
    if ((threadIdx.x & (lanes - 1)) == 0) {
      of_units[v * units + (threadIdx.x >> columns.unit_shift)] = {bounds.min, bounds.max};
    }
  }
  __syncthreads();

  const CodePacker packer(static_cast<std::uint32_t>(kBits));
  const std::uint32_t in_channel = columns.by_units.divisor();  // units
  const std::uint32_t of_group = kWarp >> columns.unit_shift;   // units
  const std::uint32_t groups = columns.by_groups.divisor();     // of a column
  const std::int64_t first_group =
      std::int64_t{sample} * job.groups + std::int64_t{block} * columns.together * groups;
  for (std::uint32_t g = threadIdx.x; g < groups * columns.together; g += blockDim.x) {
    std::uint32_t unit = g;
    const std::uint32_t of_column = columns.by_groups.split(unit);
    unit *= of_group;
    std::uint32_t v = columns.by_units.split(unit);
    const std::uint32_t before = of_column * in_channel;
    FloatBounds bounds = of_units[v * units + before + unit];
    for (std::uint32_t i = 1; i < of_group; ++i) {
      if (++unit == in_channel) {
        unit = 0;
        ++v;
      }
      bounds.join(of_units[v * units + before + unit]);
    }
    const bool good = are_quantizable(bounds.min, bounds.max);
    const FloatRange range = good ? group_range(job, kBits, bounds) : poisoned_floats();
    of_groups[g] = {range.lo, good ? packer.share_of(RangeMaker::scale(range.step)) : -1.0F};
    if (block * columns.together + of_column >= columns.vectors) continue;
    store_group_range(job, out, first_group + g, range);
    if (!good) result->not_representable = 1;
  }
  __syncthreads();

  const std::int64_t before = std::int64_t{sample} * (job.size / kStretch) +
                              std::int64_t{vector} * kVector * columns.stretches + stretch;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    std::uint32_t words[kStretchWords<type>];
    pixels.plane(v, words);
    const std::uint32_t g =
        exists ? column * groups + (v * columns.stretches + stretch) / kWarp : 0;
    const GroupScale of = of_groups[g];
    const std::int64_t at = before + std::int64_t{v} * columns.stretches;
    const std::uint64_t packed =
        group_codes<type>(job, words, at, of.lo, of.share, of.share >= 0, packer);
    store_group_codes<kBits>(out + job.codes_at + at * kBits, kBits, packed, exists);
  }
}

}  // namespace cinch::codecs::cuda
