// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/block_scan.cuh"
#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/dct/job.cuh"
#include "codecs/cuda/elements/bits.cuh"

namespace cinch::codecs::cuda {

/// Computes where chunks begin, from their sizes. Runs as one block.
static __global__ void __launch_bounds__(kDctThreads)
    dct_offsets(const DctJob job, const std::byte* in, std::int64_t* offsets) {
  const auto* const sizes = reinterpret_cast<const std::uint16_t*>(in + kDctHeaderBytes);
  const std::int64_t each = (job.chunks + kDctThreads - 1) / kDctThreads;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < job.chunks ? begin + each : job.chunks;
  std::int64_t sum = 0;
  for (std::int64_t k = begin; k < end; ++k) sum += sizes[k];
  std::int64_t total = 0;
  std::int64_t at = job.payload + BlockScan<kDctThreads>::exclusive(sum, total);
  for (std::int64_t k = begin; k < end; ++k) {
    offsets[k] = at;
    at += sizes[k];
  }
}

/// Writes a block's elements to their places: the bytes at `raw`, or if that is null, the values at
/// y[8 * row + column].
template <ElementType type>
__device__ __forceinline__ void store_block(const DctGeometry& geometry,
                                            const DctGeometry::Block& block, const std::byte* raw,
                                            const float* y, void* target) {
  using Bits = typename Element<type>::Bits;
  const auto columns = static_cast<int>(block.columns);
  for (auto k = static_cast<int>(threadIdx.x % kDctLanes); k < static_cast<int>(block.elements());
       k += kDctLanes) {
    Bits bits;
    if (raw != nullptr) {
      bits = static_cast<Bits>(load_bytes(raw + k * int{sizeof(Bits)}, sizeof(Bits)));
    } else {
      // With rows, a block is a stretch: one row of up to 64 elements.
      const int position = geometry.is_rows() ? k : k / columns * 8 + k % columns;
      bits = bits_of<type>(y[position]);
    }
    static_cast<Bits*>(target)[element_offset(geometry, block, k)] = bits;
  }
}

/// Reads the lane's row v of coefficients to y[8 * u + v], times the step `s`.
/// @param before codes of the rows above @param columns which of the row's codes are held
/// @param dc the block's DC coefficient; null: there is none
__device__ __forceinline__ void load_row(const std::byte* codes, int before, int width, bool sparse,
                                         unsigned columns, const std::byte* dc, float s, float* y) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
#pragma unroll 1
  for (int u = 0; u < 8; ++u) {
    std::int32_t q = 0;
    if ((columns >> u & 1U) != 0) {
      const auto code =
          static_cast<std::uint32_t>(load_codes(codes, before++, width, 1)) & ((1U << width) - 1);
      q = dct_unzigzag(sparse ? code + 1 : code);
    }
    if (lane == 0 && u == 0 && dc != nullptr) {
      q = static_cast<std::int16_t>(load_bytes(dc, 2));
    }
    y[8 * u + lane] = static_cast<float>(q) * s;
  }
}

/// Restores the elements of a chunk. Damaged bytes restore garbage or nothing; nothing outside of
/// the chunk's bytes is read. All threads of the block must call it.
template <ElementType type>
__device__ __forceinline__ void decode_chunk(const DctJob& job, std::int64_t chunk,
                                             const std::byte* in, std::int64_t in_size,
                                             const std::int64_t* offsets, void* target) {
  using Bits = typename Element<type>::Bits;
  __shared__ float ys[kDctChunk * kDctBlock];
  __shared__ DctParts parts[kDctChunk];
  const auto b = static_cast<int>(threadIdx.x / kDctLanes);
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  const int count = job.blocks_of(chunk);
  const bool valid = b < count;
  const int size = reinterpret_cast<const std::uint16_t*>(in + kDctHeaderBytes)[chunk];
  if (offsets[chunk] + size > in_size || size < count) return;  // the same in all threads
  const std::byte* const from = in + offsets[chunk];
  const DctGeometry::Block block = job.geometry.block(chunk * kDctChunk + (valid ? b : 0));

  // Where a part begins depends on the contents of the part before it: place one after the other.
  const auto form = valid ? static_cast<std::uint8_t>(from[b]) : kDctZeroForm;
  const bool fits = DctForm::is_valid(form);
  const bool with_dc = fits && DctForm::has_dc(form);
  const bool sparse = fits && DctForm::is_sparse(form);
  const int width = fits && form != kDctRawForm ? DctForm::width(form) : 0;
  const auto place = [&](DctParts own) {
    if (lane == 0) parts[b] = own;
    const int reach = place_parts(count, parts);
    const DctParts at = parts[b];
    __syncthreads();
    return reach <= size ? at : DctParts{-1, -1, -1, -1};
  };
  DctParts own = {2 * int{with_dc}, int{sparse}, 0, 0};
  DctParts at = place(own);
  if (at.dcs < 0) return;
  const unsigned rows = sparse ? static_cast<unsigned>(from[at.rows]) : 0U;
  own.columns = __popc(rows);
  at = place(own);
  if (at.dcs < 0) return;
  unsigned columns = with_dc && DctForm::is_dense(form) && width > 0 ? 0xFFU : 0U;
  if ((rows >> lane & 1U) != 0) {
    columns = static_cast<unsigned>(from[at.columns + __popc(rows & ((1U << lane) - 1))]);
  }
  if (lane == 0) columns &= 0xFEU;  // the DC coefficient has no bit
  int held = 0;
  const int before = scan_lanes(__popc(columns), held);  // codes of the rows above this one
  const bool raw = form == kDctRawForm && valid;
  own.codes = raw ? static_cast<int>(block.elements()) * int{sizeof(Bits)} : (held * width + 7) / 8;
  at = place(own);
  if (at.dcs < 0) return;

  float* const y = ys + b * kDctBlock;
  const float s = dct_step(DctForm::level(form)) * job.bound;
  const std::byte* const dc = with_dc ? from + at.dcs : nullptr;
  load_row(from + at.codes, before, width, sparse, columns, dc, s, y);
  transform_back(y);
  if (valid) {
    store_block<type>(job.geometry, block, raw ? from + at.codes : nullptr, y, target);
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kDctThreads)
    dct_decode(const DctJob job, const std::byte* in, std::int64_t in_size,
               const std::int64_t* offsets, void* target) {
  take_pieces(job.chunks, [&](std::int64_t chunk) {
    decode_chunk<type>(job, chunk, in, in_size, offsets, target);
  });
}

}  // namespace cinch::codecs::cuda
