// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/families.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/logical.cuh"
#include "codecs/cuda/pieces.cuh"
#include "codecs/cuda/result.cuh"
#include "codecs/layout.h"
#include "codecs/window_index.h"

namespace cinch::codecs::cuda {
namespace {

constexpr std::int32_t kNever = 0x7FFFFFFF;
/// Table entries that a block keeps in shared memory; longer tables stay in global memory.
constexpr std::int32_t kSharedEntries = 2048;

/// Arguments of the window_index kernels. Tables have an entry for each output d, then h, then w.
struct WindowJob {
  LogicalOrder order;
  std::int64_t elements;
  std::int64_t index_end;
  std::int32_t output[3];
  std::int32_t input[3];
  std::int32_t entries;
  FastDivide by_input_height, by_input_width;

  explicit WindowJob(const Description& what) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        index_end(what.index_extent[0] * what.index_extent[1] * what.index_extent[2]),
        by_input_height(what.index_extent[1]),
        by_input_width(what.index_extent[2]) {
    for (int axis = 0; axis < 3; ++axis) {
      output[axis] = static_cast<std::int32_t>(what.layout.extent[axis]);
      input[axis] = static_cast<std::int32_t>(what.index_extent[axis]);
    }
    entries = output[0] + output[1] + output[2];
  }

  /// Finds the table entries of the output element at logical index `e` of its plane.
  CINCH_HD void locate(std::uint32_t e, std::int32_t (&entry)[3]) const noexcept {
    std::uint32_t h = order.by_width.split(e);
    const std::uint32_t d = order.by_height.split(h);
    entry[0] = static_cast<std::int32_t>(d);
    entry[1] = output[0] + static_cast<std::int32_t>(h);
    entry[2] = output[0] + output[1] + static_cast<std::int32_t>(e);
  }

  CINCH_HD void unravel(std::int64_t index, std::int32_t (&at)[3]) const noexcept {
    auto w = static_cast<std::uint32_t>(index);
    std::uint32_t h = by_input_width.split(w);
    at[0] = static_cast<std::int32_t>(by_input_height.split(h));
    at[1] = static_cast<std::int32_t>(h);
    at[2] = static_cast<std::int32_t>(w);
  }
};

/// Scratch memory: the window shape, then the tables.
struct WindowTables {
  std::int32_t extent[3];
  std::int32_t bits;
  std::int32_t entries[1];  ///< smallest coordinates, then largest

  CINCH_HD std::int32_t* min() noexcept { return entries; }
  CINCH_HD std::int32_t* max(const WindowJob& job) noexcept { return entries + job.entries; }
};

static __global__ void window_begin(const WindowJob job, WindowTables* tables) {
  take_items(job.entries, [&](std::int64_t i) {
    tables->min()[i] = job.elements == 0 ? 0 : kNever;
    tables->max(job)[i] = 0;
  });
}

/// Most elements change nothing in the tables, so a comparison first saves the atomic.
__device__ __forceinline__ void widen(std::int32_t* min, std::int32_t* max, std::int32_t entry,
                                      std::int32_t coordinate) {
  if (coordinate < min[entry]) atomicMin(min + entry, coordinate);
  if (coordinate > max[entry]) atomicMax(max + entry, coordinate);
}

static __global__ void __launch_bounds__(kRunThreads)
    window_survey(const WindowJob job, const std::int64_t* source, WindowTables* tables,
                  Result* result) {
  __shared__ std::int32_t shared[2 * kSharedEntries];
  const bool local = job.entries <= kSharedEntries;
  std::int32_t* const min = local ? shared : tables->min();
  std::int32_t* const max = local ? shared + job.entries : tables->max(job);
  if (local) {
    for (std::int32_t i = threadIdx.x; i < job.entries; i += kRunThreads) {
      min[i] = kNever;
      max[i] = 0;
    }
    __syncthreads();
  }
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
      for (int axis = 0; axis < 3; ++axis) widen(min, max, entry[axis], at[axis]);
    }
  });
  if (strange) result->not_representable = 1;
  if (!local) return;
  __syncthreads();
  for (std::int32_t i = threadIdx.x; i < job.entries; i += kRunThreads) {
    if (min[i] == kNever) continue;
    widen(tables->min(), tables->max(job), i, min[i]);
    widen(tables->min(), tables->max(job), i, max[i]);
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
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    const auto e0 = static_cast<std::uint32_t>(first % job.order.layout.plane_size());
    const std::uint32_t mask = (1U << bits) - 1;
    std::uint32_t code[kStretch] = {};
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      std::uint32_t e = e0 + i + static_cast<std::uint32_t>(j);
      job.order.by_size.split(e);
      std::int32_t entry[3];
      std::int32_t at[3];
      job.locate(e, entry);
      job.unravel(source[place.offset(i + j)], at);
      std::int32_t c = 0;
      for (int axis = 0; axis < 3; ++axis) {
        c = c * tables->extent[axis] + (at[axis] - tables->min()[entry[axis]]);
      }
      code[j] = static_cast<std::uint32_t>(c) & mask;  // in range unless not representable
    }
    store_bytes(codes + (first + i) / 8 * bits, pack_stretch(code, bits), (count * bits + 7) / 8);
  });
}

static __global__ void __launch_bounds__(kRunThreads)
    window_decode(const WindowJob job, const std::byte* in, std::int64_t in_size,
                  std::int64_t codes_offset, std::int64_t* target) {
  const auto* const header = reinterpret_cast<const std::int32_t*>(in);
  const auto* const origins = reinterpret_cast<const std::int32_t*>(in + kWindowHeaderBytes);
  const int bits = header[0] >> 8 & 0xFF;
  if (bits > kWindowMaxBits || codes_offset + bytes_for_bits(job.elements * bits) > in_size) return;
  const std::int32_t kh = header[2] > 0 ? header[2] : 1;
  const std::int32_t kw = header[3] > 0 ? header[3] : 1;
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    const auto e0 = static_cast<std::uint32_t>(first % job.order.layout.plane_size());
    const std::uint32_t mask = (1U << bits) - 1;
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      auto code =
          bits == 0
              ? 0
              : static_cast<std::int32_t>(load_codes(in + codes_offset, first + i, bits, 1) & mask);
      std::uint32_t e = e0 + i;
      job.order.by_size.split(e);
      std::int32_t entry[3];
      job.locate(e, entry);
      const std::int64_t w = origins[entry[2]] + code % kw;
      code /= kw;
      const std::int64_t h = origins[entry[1]] + code % kh;
      const std::int64_t d = origins[entry[0]] + code / kh;
      // Only damaged bytes give an index outside of the plane. Backward must not get such an index.
      const std::int64_t index = (d * job.input[1] + h) * job.input[2] + w;
      const std::int64_t last = job.index_end - 1;
      target[place.offset(i)] = index < 0 || index > last ? last : index;
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
           2 * sizeof(std::int32_t) * static_cast<std::size_t>(WindowJob(what).entries);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const WindowJob job(what);
    const auto* const indices = static_cast<const std::int64_t*>(source);
    auto* const tables = static_cast<WindowTables*>(scratch);
    const std::int64_t offset = codes_offset(job);
    const unsigned blocks = run_blocks(stream, job.elements);
    const unsigned few = std::min(blocks, 8 * processors_);
    return launch(window_begin,
                  blocks_in(stream, blocks_for(job.entries, kRunThreads), kRunThreads), kRunThreads,
                  0, stream, job, tables) &&
           (blocks == 0 ||
            launch(window_survey, few, kRunThreads, 0, stream, job, indices, tables, result)) &&
           launch(window_shape, 1, kRunThreads, 0, stream, job, tables, offset, out, result) &&
           (blocks == 0 || launch(window_encode, blocks, kRunThreads, 0, stream, job, indices,
                                  tables, out + offset));
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const WindowJob job(what);
    const std::int64_t offset = codes_offset(job);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < offset) return false;
    if (job.elements == 0) return true;
    return launch(window_decode, run_blocks(stream, job.elements), kRunThreads, 0, stream, job,
                  in.data(), size, offset, static_cast<std::int64_t*>(target));
  }

 private:
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
