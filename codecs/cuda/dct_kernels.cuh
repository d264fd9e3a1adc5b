// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/running_total.cuh"
#include "codecs/dct.h"
#include "codecs/element_bits.h"

/// A block of threads takes a chunk, and eight neighbouring lanes take a block of it. Depending on
/// the step, a lane handles a column, a row, or a row of coefficients.
namespace cinch::codecs::cuda {

inline constexpr unsigned kDctThreads = 256;
inline constexpr int kDctLanes = 8;
static_assert(kDctThreads == kDctChunk * kDctLanes && kDctChunk == kWarp);

struct DctJob {
  DctGeometry geometry;
  std::int64_t blocks, chunks, elements;
  float bound;
  bool zero_value;
  ElementType type;
  std::int64_t payload;

  DctJob(const DctParameters& parameters, const Description& what) noexcept
      : geometry(what.layout),
        blocks(geometry.blocks()),
        chunks(geometry.chunks()),
        elements(what.layout.elements()),
        bound(parameters.error_bound),
        zero_value(parameters.zero_value),
        type(what.type),
        payload(kDctHeaderBytes + 2 * chunks) {}
};

/// A ballot among the eight lanes of the calling lane's block. All lanes of the warp must call it.
__device__ __forceinline__ unsigned block_ballot(bool predicate) {
  return __ballot_sync(kAllLanes, predicate) >> (threadIdx.x % kWarp / kDctLanes * kDctLanes) &
         0xFFU;
}

/// Sums over the eight lanes of the calling lane's block. All lanes of the warp must call it.
/// @return the sum of the lanes before the calling one
__device__ __forceinline__ int scan_lanes(int own, int& total) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  int sum = own;
  for (int step = 1; step < kDctLanes; step *= 2) {
    const int before = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += before;
  }
  total = __shfl_sync(kAllLanes, sum, static_cast<int>(threadIdx.x % kWarp) | (kDctLanes - 1));
  return sum - own;
}

/// Bytes that a block adds to each part of its chunk; after a scan, where it begins in each part.
struct DctParts {
  int dcs, rows, columns, codes;

  __device__ __forceinline__ static DctParts scan(DctParts own, DctParts& total) {
    DctParts sum = own;
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    for (int step = 1; step < int{kWarp}; step *= 2) {
      const DctParts before = {
          __shfl_up_sync(kAllLanes, sum.dcs, step), __shfl_up_sync(kAllLanes, sum.rows, step),
          __shfl_up_sync(kAllLanes, sum.columns, step), __shfl_up_sync(kAllLanes, sum.codes, step)};
      if (lane >= step) {
        sum = {sum.dcs + before.dcs, sum.rows + before.rows, sum.columns + before.columns,
               sum.codes + before.codes};
      }
    }
    total = {__shfl_sync(kAllLanes, sum.dcs, 31), __shfl_sync(kAllLanes, sum.rows, 31),
             __shfl_sync(kAllLanes, sum.columns, 31), __shfl_sync(kAllLanes, sum.codes, 31)};
    return {sum.dcs - own.dcs, sum.rows - own.rows, sum.columns - own.columns,
            sum.codes - own.codes};
  }
};

__device__ __forceinline__ bool has_dc(std::uint8_t form) {
  return form != kDctRawForm && form != kDctZeroForm;
}
__device__ __forceinline__ bool is_sparse(std::uint8_t form) {
  return form != kDctRawForm && !DctForm::is_dense(form) && DctForm::width(form) > 0;
}

/// Turns the blocks' sizes into places in a chunk of `count` blocks. All threads must call it.
/// @return the chunk's size
__device__ __forceinline__ int place_parts(int count, DctParts* parts) {
  __shared__ int size;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    DctParts total;
    const DctParts before = DctParts::scan(parts[threadIdx.x], total);
    const int rows_at = count + total.dcs;
    const int columns_at = rows_at + total.rows;
    const int codes_at = columns_at + total.columns;
    parts[threadIdx.x] = {count + before.dcs, rows_at + before.rows, columns_at + before.columns,
                          codes_at + before.codes};
    if (threadIdx.x == 0) size = codes_at + total.codes;
  }
  __syncthreads();
  return size;
}

/// Turns coefficients times their step, at y[8 * u + v], into elements, in place.
__device__ __forceinline__ void transform_back(float* y) {
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  __syncwarp();
  dct8_inverse(y + 8 * lane, 1);
  __syncwarp();
  dct8_inverse(y + lane, 8);
  __syncwarp();
}

/// Where element k of a block lies in memory, counted row by row.
__device__ __forceinline__ std::int64_t element_offset(const DctGeometry& geometry,
                                                       const DctGeometry::Block& block, int k) {
  const auto columns = static_cast<int>(block.columns);
  return block.offset + k / columns * geometry.row_stride() +
         k % columns * geometry.column_stride();
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

template <ElementType type>
__global__ void __launch_bounds__(kDctThreads)
    dct_encode(const DctJob job, const void* source, RunningTotal* total, std::byte* out,
               Result* result) {
  using Bits = typename Element<type>::Bits;
  __shared__ float xs[kDctChunk * kDctBlock];
  __shared__ float cs[kDctChunk * kDctBlock];
  __shared__ float ys[kDctChunk * kDctBlock];
  __shared__ std::uint32_t joined[kDctChunk][kDctBlock / 2];
  __shared__ DctParts parts[kDctChunk];
  const std::int64_t chunk = take_turn(total);
  const auto b = static_cast<int>(threadIdx.x / kDctLanes);
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  const std::int64_t left = job.blocks - chunk * kDctChunk;
  const int count = left < kDctChunk ? static_cast<int>(left) : int{kDctChunk};
  const bool valid = b < count;
  const auto* const elements = static_cast<const Bits*>(source);
  // Lanes without a block of their own repeat the chunk's first block, and write nothing.
  const DctGeometry::Block block = job.geometry.block(chunk * kDctChunk + (valid ? b : 0));
  float* const x = xs + b * kDctBlock;
  float* const c = cs + b * kDctBlock;

  bool good = true;
  for (int i = 0; i < 8; ++i) {
    const float value =
        value_of<type>(elements[block.offset + job.geometry.offset_in(block, i, lane)]);
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
  const int level = choose_level<type>(job.bound, good, x, c, ys + b * kDctBlock);

  // From here on a lane handles row v of coefficients: positions 8 v to 8 v + 7.
  const bool coded = level < kDctLevels;
  const float scale = 1.0F / (dct_step(coded ? level : 0) * job.bound);
  std::uint32_t z[8];
  unsigned columns = 0;
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
  int nonzero = 0;
  const int before = scan_lanes(__popc(columns), nonzero);  // non-zeros of the rows above this one
  const unsigned rows = block_ballot(columns != 0);
  const auto first_lane = static_cast<int>(threadIdx.x % kWarp) - lane;
  const std::uint32_t first_z = __shfl_sync(kAllLanes, z[0], first_lane);
  const std::int32_t dc = dct_unzigzag(first_z);
  const std::int64_t raw = block.elements() * std::int64_t{sizeof(Bits)};
  DctForm form = {kDctRawForm, raw};
  if (coded) {
    form = dct_form(level, dc, nonzero, __popc(rows), all_sparse, all_dense, job.zero_value, raw);
  }
  const bool with_dc = has_dc(form.form);
  const bool sparse = is_sparse(form.form);
  const int row_count = sparse ? __popc(rows) : 0;
  if (lane == 0) {
    const int others = 2 * int{with_dc} + int{sparse} + row_count;
    parts[b] = valid ? DctParts{2 * int{with_dc}, int{sparse}, row_count,
                                static_cast<int>(form.bytes) - others}
                     : DctParts{0, 0, 0, 0};
  }
  const int size = place_parts(count, parts);
  const std::int64_t place = add_to_total(total, chunk, size);
  if (threadIdx.x == 0) {
    reinterpret_cast<std::uint16_t*>(out + kDctHeaderBytes)[chunk] =
        static_cast<std::uint16_t>(size);
    if (chunk == job.chunks - 1) {
      auto* const header = reinterpret_cast<std::int64_t*>(out);
      header[0] = kDctVersion | static_cast<std::int64_t>(type) << 8;
      header[1] = job.blocks;
      header[2] = job.elements;
      header[3] = job.payload + place + size;
      result->bytes = static_cast<std::uint64_t>(header[3]);
    }
  }

  std::byte* const to = out + job.payload + place;
  const DctParts at = parts[b];
  const int width = DctForm::width(form.form);
  const bool has_codes = with_dc && width > 0;
  for (int w = lane; w < kDctBlock / 2; w += kDctLanes) joined[b][w] = 0;
  __syncwarp();
  if (has_codes) {
    int index = sparse ? before : lane == 0 ? 0 : 8 * lane - 1;
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      if ((lane == 0 && u == 0) || (sparse && z[u] == 0)) continue;
      const int bit = index++ * width;
      const std::uint64_t shifted = std::uint64_t{sparse ? z[u] - 1 : z[u]} << (bit % 32);
      atomicOr(&joined[b][bit / 32], static_cast<std::uint32_t>(shifted));
      const auto rest = static_cast<std::uint32_t>(shifted >> 32);
      if (rest != 0) atomicOr(&joined[b][bit / 32 + 1], rest);
    }
  }
  __syncwarp();
  if (!valid) return;
  if (lane == 0) {
    to[b] = static_cast<std::byte>(form.form);
    if (with_dc) store_bytes(to + at.dcs, static_cast<std::uint16_t>(dc), 2);
    if (sparse) to[at.rows] = static_cast<std::byte>(rows);
  }
  if (sparse && columns != 0) {
    to[at.columns + __popc(rows & ((1U << lane) - 1))] = static_cast<std::byte>(columns);
  }
  if (has_codes) {
    const int bytes = ((sparse ? nonzero : kDctBlock - 1) * width + 7) / 8;
    for (int i = lane; i < bytes; i += kDctLanes) {
      to[at.codes + i] = static_cast<std::byte>(joined[b][i / 4] >> (i % 4 * 8));
    }
  } else if (form.form == kDctRawForm) {
    for (int k = lane; k < static_cast<int>(block.elements()); k += kDctLanes) {
      store_bytes(to + at.codes + k * int{sizeof(Bits)},
                  elements[element_offset(job.geometry, block, k)], sizeof(Bits));
    }
  }
}

/// Encodes an empty tensor: a header.
static __global__ void dct_empty(const DctJob job, std::byte* out, Result* result) {
  auto* const header = reinterpret_cast<std::int64_t*>(out);
  header[0] = kDctVersion | static_cast<std::int64_t>(job.type) << 8;
  header[1] = 0;
  header[2] = 0;
  header[3] = job.payload;
  result->bytes = static_cast<std::uint64_t>(job.payload);
}

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

/// Damaged bytes restore garbage or nothing; nothing outside of the chunk's bytes is read.
template <ElementType type>
__global__ void __launch_bounds__(kDctThreads)
    dct_decode(const DctJob job, const std::byte* in, std::int64_t in_size,
               const std::int64_t* offsets, void* target) {
  using Bits = typename Element<type>::Bits;
  __shared__ float ys[kDctChunk * kDctBlock];
  __shared__ DctParts parts[kDctChunk];
  const std::int64_t chunk = blockIdx.x;
  const auto b = static_cast<int>(threadIdx.x / kDctLanes);
  const auto lane = static_cast<int>(threadIdx.x % kDctLanes);
  const std::int64_t left = job.blocks - chunk * kDctChunk;
  const int count = left < kDctChunk ? static_cast<int>(left) : int{kDctChunk};
  const bool valid = b < count;
  const int size = reinterpret_cast<const std::uint16_t*>(in + kDctHeaderBytes)[chunk];
  if (offsets[chunk] + size > in_size || size < count) return;  // the same in all threads
  const std::byte* const from = in + offsets[chunk];
  const DctGeometry::Block block = job.geometry.block(chunk * kDctChunk + (valid ? b : 0));

  // Where a part begins depends on the contents of the part before it: place one after the other.
  const auto form = valid ? static_cast<std::uint8_t>(from[b]) : kDctZeroForm;
  const bool fits = DctForm::is_valid(form);
  const bool with_dc = fits && has_dc(form);
  const bool sparse = fits && is_sparse(form);
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
  int before = scan_lanes(__popc(columns), held);  // codes of the rows above this one
  const bool raw = form == kDctRawForm && valid;
  own.codes = raw ? static_cast<int>(block.elements()) * int{sizeof(Bits)} : (held * width + 7) / 8;
  at = place(own);
  if (at.dcs < 0) return;

  float* const y = ys + b * kDctBlock;
  const float s = dct_step(DctForm::level(form)) * job.bound;
#pragma unroll 1
  for (int u = 0; u < 8; ++u) {
    std::int32_t q = 0;
    if ((columns >> u & 1U) != 0) {
      const auto code =
          static_cast<std::uint32_t>(load_codes(from + at.codes, before++, width, 1)) &
          ((1U << width) - 1);
      q = dct_unzigzag(sparse ? code + 1 : code);
    }
    if (lane == 0 && u == 0 && with_dc) {
      q = static_cast<std::int16_t>(load_bytes(from + at.dcs, 2));
    }
    y[8 * u + lane] = static_cast<float>(q) * s;
  }
  transform_back(y);
  if (valid) {
    store_block<type>(job.geometry, block, raw ? from + at.codes : nullptr, y, target);
  }
}

}  // namespace cinch::codecs::cuda
