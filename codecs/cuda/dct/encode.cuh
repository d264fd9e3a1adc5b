// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/running_total.cuh"
#include "codecs/cuda/dct/job.cuh"
#include "codecs/cuda/elements/bits.cuh"

namespace cinch::codecs::cuda {

/// Loads a block to x[8 * row + column], and its coefficients to c[8 * u + v].
/// @return whether all elements are within bounds
template <ElementType type>
__device__ __forceinline__ bool load_block(const DctGeometry& geometry,
                                           const DctGeometry::Block& block, const void* source,
                                           float* x, float* c) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  bool good = true;
  for (int i = 0; i < 8; ++i) {
    const float value = load_value<type>(source, block.offset + geometry.offset_in(block, i, lane));
    good &= fabsf(value) <= kAffineMaxMagnitude;
    x[8 * i + lane] = value;
    c[8 * i + lane] = value;
  }
  good = block_ballot(good) == 0xFFU;
  __syncwarp();
  dct8(c + lane, 8);
  __syncwarp();
  dct8(c + 8 * lane, 1);
  __syncwarp();
  return good;
}

/// The first level that holds the bound, or kDctLevels. `c` are coefficients, `y` is scratch.
template <ElementType type>
__device__ __forceinline__ int choose_level(float bound, bool good, const float* x, const float* c,
                                            float* y) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  int chosen = kDctLevels;
  for (int level = 0; level < kDctLevels; ++level) {
    const float s = dct_step(level) * bound;
    const float scale = 1.0F / s;
    bool holds = good;
    for (int v = 0; v < 8; ++v) {
      const float rounded = rintf(c[8 * lane + v] * scale);
      const bool fits = fabsf(rounded) <= kDctMaxCode;
      holds &= fits;
      y[8 * lane + v] = static_cast<float>(fits ? static_cast<std::int32_t>(rounded) : 0) * s;
    }
    transform_back(y);
    for (int i = 0; i < 8; ++i) {
      const float restored = value_of<type>(bits_of<type>(y[8 * i + lane]));
      holds &= fabsf(x[8 * i + lane] - restored) < bound;
    }
    const bool all = block_ballot(holds) == 0xFFU;
    if (all && chosen == kDctLevels) chosen = level;
    __syncwarp();
    if (__all_sync(kAllLanes, !good || chosen < kDctLevels) != 0) break;
  }
  return chosen;
}

/// A block's codes. Of these a lane has row v of coefficients: positions 8 v to 8 v + 7.
struct DctCodes {
  std::uint32_t z[8];
  unsigned columns = 0;  ///< which of the row's codes, without DC's, are not 0
  // Of the whole block.
  unsigned rows;    ///< which rows have such codes
  int nonzero = 0;  ///< how many such codes there are
  int before;       ///< how many there are in the rows above this lane's
  std::int32_t dc;
  DctForm form;

  /// All lanes of the warp must call it. @param c coefficients @param raw bytes of its elements
  __device__ __forceinline__ DctCodes(const DctJob& job, int level, const float* c,
                                      std::int64_t raw) {
    const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
    const bool coded = level < kDctLevels;
    const float scale = 1.0F / (dct_step(coded ? level : 0) * job.bound);
    std::uint32_t all_sparse = 0;
    std::uint32_t all_dense = 0;
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      z[u] = coded ? dct_zigzag(static_cast<std::int32_t>(rintf(c[8 * u + lane] * scale))) : 0U;
      if (lane == 0 && u == 0) continue;
      all_dense |= z[u];
      if (z[u] != 0) {
        all_sparse |= z[u] - 1;
        columns |= 1U << u;
      }
    }
    for (int step = 1; step < kDctLanes; step *= 2) {
      all_dense |= __shfl_xor_sync(kAllLanes, all_dense, step);
      all_sparse |= __shfl_xor_sync(kAllLanes, all_sparse, step);
    }
    before = scan_lanes(__popc(columns), nonzero);
    rows = block_ballot(columns != 0);
    const auto first_lane = static_cast<int>(threadIdx.x % kWarp) - lane;
    dc = dct_unzigzag(__shfl_sync(kAllLanes, z[0], first_lane));
    form = {kDctRawForm, raw};
    if (coded) {
      form = dct_form(level, dc, nonzero, __popc(rows), all_sparse, all_dense, job.zero_value, raw);
    }
  }

  __device__ __forceinline__ bool has_dc() const {
    return DctForm::has_dc(form.form);
  }
  __device__ __forceinline__ bool is_sparse() const {
    return DctForm::is_sparse(form.form);
  }

  __device__ __forceinline__ DctParts parts() const {
    const int row_count = is_sparse() ? __popc(rows) : 0;
    const int others = 2 * int{has_dc()} + int{is_sparse()} + row_count;
    return {2 * int{has_dc()}, int{is_sparse()}, row_count, static_cast<int>(form.bytes) - others};
  }

  __device__ __forceinline__ bool has_codes() const {
    return has_dc() && DctForm::width(form.form) > 0;
  }

  /// Joins the row's codes with the other lanes' in `words`, which are zero.
  __device__ __forceinline__ void join(std::uint32_t* words) const {
    if (!has_codes()) return;
    const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
    const int width = DctForm::width(form.form);
    int index = is_sparse() ? before : lane == 0 ? 0 : 8 * lane - 1;
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      if ((lane == 0 && u == 0) || (is_sparse() && z[u] == 0)) continue;
      or_code(words, index++ * width, is_sparse() ? z[u] - 1 : z[u]);
    }
  }

  /// Writes all but the form and a raw block's elements. @param joined the block's joined codes
  __device__ __forceinline__ void write(const DctParts& at, const std::uint32_t* joined,
                                        std::byte* to) const {
    const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
    if (lane == 0) {
      if (has_dc()) store_bytes(to + at.dcs, static_cast<std::uint16_t>(dc), 2);
      if (is_sparse()) to[at.rows] = static_cast<std::byte>(rows);
    }
    if (is_sparse() && columns != 0) {
      to[at.columns + __popc(rows & ((1U << lane) - 1))] = static_cast<std::byte>(columns);
    }
    if (!has_codes()) return;
    const int count = is_sparse() ? nonzero : kDctBlock - 1;
    const int bytes = (count * DctForm::width(form.form) + 7) / 8;
    for (int i = lane; i < bytes; i += kDctLanes) {
      to[at.codes + i] = static_cast<std::byte>(joined[i / 4] >> (i % 4 * 8));
    }
  }
};

/// Encodes a chunk. All threads of the block must call it. @param chunk a turn of `total`
template <ElementType type>
__device__ __forceinline__ void encode_chunk(const DctJob& job, unsigned chunk, const void* source,
                                             RunningTotal* total, std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  __shared__ float xs[kDctChunk * kDctBlock];
  __shared__ float cs[kDctChunk * kDctBlock];
  __shared__ float ys[kDctChunk * kDctBlock];
  __shared__ std::uint32_t joined[kDctChunk][kDctBlock / 2];
  __shared__ DctParts parts[kDctChunk];
  const auto b = static_cast<int>(threadIdx.x / kDctLanes);
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  const int count = job.blocks_of(chunk);
  const bool valid = b < count;
  // Lanes without a block of their own repeat the chunk's first block, and write nothing.
  const DctGeometry::Block block =
      job.geometry.block(std::int64_t{chunk} * kDctChunk + (valid ? b : 0));
  float* const x = xs + b * kDctBlock;
  float* const c = cs + b * kDctBlock;
  const bool good = load_block<type>(job.geometry, block, source, x, c);
  const int level = choose_level<type>(job.bound, good, x, c, ys + b * kDctBlock);
  const DctCodes codes(job, level, c, block.elements() * std::int64_t{sizeof(Bits)});
  if (lane == 0) parts[b] = valid ? codes.parts() : DctParts{0, 0, 0, 0};
  const int size = place_parts(count, parts);
  const std::int64_t place = add_to_total(total, chunk, size);
  if (threadIdx.x == 0) {
    reinterpret_cast<std::uint16_t*>(out + kDctHeaderBytes)[chunk] =
        static_cast<std::uint16_t>(size);
    if (chunk == job.chunks - 1) job.write_header(job.payload + place + size, out, result);
  }

  for (int w = lane; w < kDctBlock / 2; w += kDctLanes) joined[b][w] = 0;
  __syncwarp();
  codes.join(joined[b]);
  __syncwarp();
  if (!valid) return;
  std::byte* const to = out + job.payload + place;
  const DctParts at = parts[b];
  if (lane == 0) to[b] = static_cast<std::byte>(codes.form.form);
  codes.write(at, joined[b], to);
  if (codes.form.form != kDctRawForm) return;
  for (int k = lane; k < static_cast<int>(block.elements()); k += kDctLanes) {
    const Bits bits = static_cast<const Bits*>(source)[element_offset(job.geometry, block, k)];
    store_bytes(to + at.codes + k * int{sizeof(Bits)}, bits, sizeof(Bits));
  }
}

/// Encodes chunks until there is none left: any number of blocks of threads will do.
template <ElementType type>
__global__ void __launch_bounds__(kDctThreads, 5)  // 48 registers; with 40 the loop would spill
    dct_encode(const DctJob job, const void* source, RunningTotal* total, std::byte* out,
               Result* result) {
  while (true) {
    const auto chunk = static_cast<unsigned>(take_turn(total));
    if (chunk >= static_cast<unsigned>(job.chunks)) return;
    encode_chunk<type>(job, chunk, source, total, out, result);
  }
}

/// Encodes an empty tensor: a header.
static __global__ void dct_empty(const DctJob job, std::byte* out, Result* result) {
  job.write_header(job.payload, out, result);
}

}  // namespace cinch::codecs::cuda
