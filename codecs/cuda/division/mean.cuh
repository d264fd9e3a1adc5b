// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/division/job.cuh"

/// Means of DIVISION's blocks, of any size and anywhere in memory.
namespace cinch::codecs::cuda {

/// Adds up sums of 32 aligned columns in adjacent pairs, in the order of their arrival. Works as a
/// binary counter: digit i is the sum of 2^i inputs that waits for its partner.
class PairCounter {
 public:
  __device__ __forceinline__ void add(float sum) {
    bool carried = true;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if (!carried) continue;
      if ((count_ >> level & 1U) != 0) {
        sum = waiting_[level] + sum;
      } else {
        waiting_[level] = sum;
        carried = false;
      }
    }
    ++count_;
    last_ = sum;
  }

  /// The sum of all inputs. @pre add was called a power of two times
  __device__ __forceinline__ float total() const {
    return last_;
  }

 private:
  static constexpr int kLevels = 25;  // planes have at most 2^29 elements, an input sums 32 columns
  float waiting_[kLevels];
  unsigned count_ = 0;
  float last_ = 0.0F;
};

/// Computes the mean of a block with as many neighbouring lanes as it has columns, rounded up to a
/// power of two, `padded`, but at most a warp. All lanes of the warp must call it.
/// @param index of the block, over all planes
template <ElementType type>
__device__ __forceinline__ float block_mean(const DivisionJob& job, std::int64_t padded,
                                            const void* source, std::int64_t index) {
  const auto lanes = static_cast<unsigned>(padded < std::int64_t{kWarp} ? padded : kWarp);
  const auto lane = static_cast<std::int32_t>(threadIdx.x & (lanes - 1));
  std::int64_t plane = 0;
  std::uint32_t block = 0;
  if (job.few) {
    block = static_cast<std::uint32_t>(index);
    plane = job.by_block_count.split(block);
  } else {
    plane = index / job.block_count;
    block = static_cast<std::uint32_t>(index % job.block_count);
  }
  const PoolWindow window(job, block);
  const std::int64_t begin = job.plane_begin(plane);
  const auto load = [&](std::int32_t d, std::int32_t h, std::int32_t w) {
    return load_value<type>(source, begin + d * job.layout.stride[0] + h * job.layout.stride[1] +
                                        w * job.layout.stride[2]);
  };
  if (padded <= std::int64_t{kWarp}) {
    return pair_sum(column_sum(window, window.w0 + lane, load), lanes) / window.count();
  }
  PairCounter counter;
  for (std::int64_t column = 0; column < padded; column += kWarp) {
    const std::int64_t w = window.w0 + column + lane;
    const float one = w < window.w1 ? column_sum(window, static_cast<std::int32_t>(w), load) : 0.0F;
    counter.add(pair_sum(one, kWarp));
  }
  return counter.total() / window.count();
}

}  // namespace cinch::codecs::cuda
