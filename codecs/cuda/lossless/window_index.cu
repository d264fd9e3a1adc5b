// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/blocks/result.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/lossless/window_index_tiles.cuh"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

static __global__ void window_begin(const WindowJob job, WindowTables* tables) {
  take_items(job.entries, [&](std::int64_t i) {
    tables->min()[i] = job.elements == 0 ? 0 : kNever;
    tables->max(job)[i] = 0;
  });
}

/// Adds the block's runs to the tables. @return whether all their indices were in range
__device__ __forceinline__ bool survey_runs(const WindowJob& job, const std::int64_t* source,
                                            std::int32_t* min, std::int32_t* max) {
  bool strange = false;
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    const auto e0 = static_cast<std::uint32_t>(first % job.order.layout.plane_size());
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      const std::int64_t index = source[place.offset(i)];
      if (index < 0 || index >= job.index_end) {
        strange = true;
        continue;
      }
      std::uint32_t e = e0 + i;
      job.order.by_size.split(e);
      std::int32_t entry[3];
      std::int32_t at[3];
      job.locate(e, entry);
      job.unravel(index, at);
      for (int axis = 0; axis < 3; ++axis) widen(min, max, entry[axis], at[axis], at[axis]);
    }
  });
  return !strange;
}

template <bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    window_survey(const WindowJob job, const std::int64_t* source, WindowTables* tables,
                  Result* result) {
  __shared__ std::int32_t shared[2 * kSharedEntries];
  // Apart for each kind of memory, as the compiler must know it.
  const auto survey = [&](std::int32_t* min, std::int32_t* max) {
    const bool good =
        tiled ? survey_tiles(job, source, min, max) : survey_runs(job, source, min, max);
    if (!good) result->not_representable = 1;
  };
  if (job.entries > kSharedEntries) return survey(tables->min(), tables->max(job));
  for (std::int32_t i = threadIdx.x; i < job.entries; i += blockDim.x) {
    shared[i] = kNever;
    shared[kSharedEntries + i] = 0;
  }
  __syncthreads();
  survey(shared, shared + kSharedEntries);
  __syncthreads();
  for (std::int32_t i = threadIdx.x; i < job.entries; i += blockDim.x) {
    if (shared[i] == kNever) continue;
    widen(tables->min(), tables->max(job), i, shared[i], shared[kSharedEntries + i]);
  }
}

/// Computes the window extents, and writes the header and the origins. Runs as one block.
static __global__ void __launch_bounds__(kRunThreads)
    window_shape(const WindowJob job, WindowTables* tables, std::int64_t codes_offset,
                 std::byte* out, Result* result) {
  __shared__ std::int32_t extent[3];
  if (threadIdx.x < 3) extent[threadIdx.x] = 1;
  __syncthreads();
  auto* const origins = reinterpret_cast<std::int32_t*>(out + kWindowHeaderBytes);
  for (std::int32_t i = threadIdx.x; i < job.entries; i += kRunThreads) {
    const std::int32_t min = tables->min()[i];
    const int axis = i < job.output[0] ? 0 : i < job.output[0] + job.output[1] ? 1 : 2;
    if (min != kNever) atomicMax(extent + axis, tables->max(job)[i] - min + 1);
    origins[i] = min;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::int64_t offsets = 1;
  int bits = 0;
  for (int axis = 0; axis < 3; ++axis) {
    tables->extent[axis] = extent[axis];
    if (offsets <= 1 << kWindowMaxBits) offsets *= extent[axis];
  }
  if (offsets > 1 << kWindowMaxBits) {
    result->not_representable = 1;
    offsets = 1;
  }
  while ((std::int64_t{1} << bits) < offsets) ++bits;
  tables->bits = bits;
  auto* const header = reinterpret_cast<std::int32_t*>(out);
  header[0] = kWindowVersion | bits << 8;
  for (int axis = 0; axis < 3; ++axis) header[1 + axis] = extent[axis];
  publish(codes_offset + bytes_for_bits(job.elements * bits), result);
}

static __global__ void __launch_bounds__(kRunThreads)
    window_encode(const WindowJob job, const std::int64_t* source, WindowTables* tables,
                  std::byte* codes) {
  const int bits = tables->bits;
  if (bits == 0) return;
  const std::int32_t height = tables->extent[1];
  const std::int32_t width = tables->extent[2];
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    const auto e0 = static_cast<std::uint32_t>(first % job.order.layout.plane_size());
    const std::uint32_t mask = (1U << bits) - 1;
    std::uint32_t code[kStretch] = {};
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      std::uint32_t e = e0 + i + static_cast<std::uint32_t>(j);
      job.order.by_size.split(e);
      const std::uint32_t origin = window_origin(job, tables->min(), e, height, width);
      code[j] = window_code(job, source[place.offset(i + j)], origin, height, width) & mask;
    }
    store_bytes(codes + (first + i) / 8 * bits, pack_stretch(code, bits), (count * bits + 7) / 8);
  });
}

static __global__ void __launch_bounds__(kRunThreads)
    window_decode(const WindowJob job, const std::byte* in, std::int64_t in_size,
                  std::int64_t codes_offset, std::int64_t* target) {
  __shared__ std::uint32_t of_code[1 << kWindowMaxBits];
  const auto* const header = reinterpret_cast<const std::int32_t*>(in);
  const auto* const origins = reinterpret_cast<const std::int32_t*>(in + kWindowHeaderBytes);
  const int bits = header[0] >> 8 & 0xFF;
  if (bits > kWindowMaxBits || codes_offset + bytes_for_bits(job.elements * bits) > in_size) return;
  const WindowOffsets offsets(job, in, bits, of_code);
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    const auto e0 = static_cast<std::uint32_t>(first % job.order.layout.plane_size());
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      const std::uint64_t code = bits == 0 ? 0 : load_codes(in + codes_offset, first + i, bits, 1);
      std::uint32_t e = e0 + i;
      job.order.by_size.split(e);
      target[place.offset(i)] =
          offsets.index(window_origin(job, origins, e, job.input[1], job.input[2]), code);
    }
  });
}

class WindowIndexCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return sizeof(WindowTables) +
           2 * sizeof(std::int32_t) * static_cast<std::size_t>(WindowJob(what, nullptr).entries);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const WindowJob job(what, source);
    const auto* const indices = static_cast<const std::int64_t*>(source);
    auto* const tables = static_cast<WindowTables*>(scratch);
    const std::int64_t offset = codes_offset(job);
    return launch(window_begin,
                  blocks_in(stream, blocks_for(job.entries, kRunThreads), kRunThreads), kRunThreads,
                  0, stream, job, tables) &&
           (job.elements == 0 || survey(job, indices, tables, result, stream)) &&
           launch(window_shape, 1, kRunThreads, 0, stream, job, tables, offset, out, result) &&
           (job.elements == 0 || encode(job, indices, tables, out + offset, stream));
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const WindowJob job(what, target);
    const std::int64_t offset = codes_offset(job);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < offset) return false;
    if (job.elements == 0) return true;
    auto* const indices = static_cast<std::int64_t*>(target);
    return job.tiles.count > 0
               ? launch(window_decode_tiles, tile_blocks(job, stream), job.tiles.threads, 0, stream,
                        job, in.data(), size, offset, indices)
               : launch(window_decode, run_blocks(stream, job.elements), kRunThreads, 0, stream,
                        job, in.data(), size, offset, indices);
  }

 private:
  static unsigned tile_blocks(const WindowJob& job, Stream stream) noexcept {
    return blocks_in(stream, job.tiles.count, job.tiles.threads);
  }

  /// Few blocks, each of which adds its tables to the whole's once.
  bool survey(const WindowJob& job, const std::int64_t* source, WindowTables* tables,
              Result* result, Stream stream) const noexcept {
    const unsigned few = 8 * processors_;
    return job.tiles.count > 0
               ? launch(window_survey<true>, std::min(tile_blocks(job, stream), few),
                        job.tiles.threads, 0, stream, job, source, tables, result)
               : launch(window_survey<false>, std::min(run_blocks(stream, job.elements), few),
                        kRunThreads, 0, stream, job, source, tables, result);
  }

  static bool encode(const WindowJob& job, const std::int64_t* source, WindowTables* tables,
                     std::byte* codes, Stream stream) noexcept {
    return job.tiles.count > 0 && job.tiles.in_bytes()
               ? launch(window_encode_tiles, tile_blocks(job, stream), job.tiles.threads, 0, stream,
                        job, source, tables, codes)
               : launch(window_encode, run_blocks(stream, job.elements), kRunThreads, 0, stream,
                        job, source, tables, codes);
  }

  static std::int64_t codes_offset(const WindowJob& job) noexcept {
    return kWindowHeaderBytes + 4 * std::int64_t{job.entries};
  }

  std::shared_ptr<const Codec> host_ = make_window_index_reference();
  unsigned processors_ = device_limits().processors;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_window_index_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<WindowIndexCuda>();
}

}  // namespace cinch::codecs::cuda
