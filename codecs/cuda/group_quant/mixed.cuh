// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/group_quant/job.cuh"

/// What group_quant does before its other kernels where planes have different bits.
namespace cinch::codecs::cuda {

/// Bits of some planes, passed by value as a kernel's argument.
struct PlaneBits {
  static constexpr int kCount = 2048;
  std::uint8_t bits[kCount];
};

static __global__ void group_store_bits(const PlaneBits some, int count, std::byte* out) {
  for (int i = threadIdx.x; i < count; i += kGroupThreads) {
    out[i] = static_cast<std::byte>(some.bits[i]);
  }
}

/// Computes where each plane's codes begin, from the first code on. Runs as one block.
static __global__ void __launch_bounds__(kGroupThreads)
    group_offsets(const GroupJob job, const std::byte* encoded, std::int64_t* offsets) {
  const std::int64_t each = (job.planes + kGroupThreads - 1) / kGroupThreads;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < job.planes ? begin + each : job.planes;
  const auto bytes = [&](std::int64_t plane) {
    const int bits = static_cast<int>(encoded[job.plane_bits_at + plane]);
    return group_quant_code_bytes(job.size, bits < 1 ? 1 : bits > 8 ? 8 : bits);
  };
  std::int64_t sum = 0;
  for (std::int64_t p = begin; p < end; ++p) sum += bytes(p);
  std::int64_t total = 0;
  std::int64_t at = BlockScan<kGroupThreads>::exclusive(sum, total);
  for (std::int64_t p = begin; p < end; ++p) {
    offsets[p] = at;
    at += bytes(p);
  }
}

}  // namespace cinch::codecs::cuda
