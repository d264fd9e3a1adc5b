// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/division/decode.cuh"
#include "codecs/cuda/division/encode.cuh"
#include "codecs/cuda/division/interleaved.cuh"
#include "codecs/cuda/division/large.cuh"
#include "codecs/cuda/division/rows.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/division/division.h"

namespace cinch::codecs::cuda {
namespace {

/// Shared memory that a block of threads may use for decoding.
constexpr std::size_t kDecodeShared = std::size_t{40} << 10;

/// Calls f with job.run() as a std::integral_constant.
template <typename F>
bool with_run(const DivisionJob& job, const F& f) {
  switch (job.run()) {
    case 8:
      return f(std::integral_constant<int, 8>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 2:
      return f(std::integral_constant<int, 2>());
    default:
      return f(std::integral_constant<int, 1>());
  }
}

class DivisionCuda final : public DeviceCodec {
 public:
  explicit DivisionCuda(const DivisionParameters& parameters)
      : parameters_(parameters), device_(device_limits()) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && is_valid(what.layout) &&
           what.layout.plane_size() <= kMaxPlane &&
           blocks_for(what.layout.elements(), kDecodeThreads) <= kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    const DivisionJob job(parameters_, what, nullptr, {});
    if (tile_of(job, what.type) > 0) return 0;
    return sizeof(PlaneBounds) * static_cast<std::size_t>(what.layout.planes());
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const DivisionJob job(parameters_, what, source, key);
    if (what.layout.planes() == 0) return true;
    if (is_of_rows(job)) {
      const bool launched = with_element(what.type, [&](auto type) {
        const std::int64_t blocks = (what.layout.planes() + 7) / 8;
        return launch(division_encode_rows<type.value>,
                      stay_in(stream, blocks, kRowBlocks, kRowThreads), kRowThreads, 0, stream, job,
                      source, out, result);
      });
      // Rows that are not aligned are encoded as tiles. Those of long rows take shared memory that
      // only a loaded kernel may use.
      if (!launched || !Loading::wanted()) return launched;
    }
    const std::int32_t planes = tile_of(job, what.type);
    return with_element(what.type, [&](auto type) {
      return planes > 0 ? encode_tiles<type.value>(job, planes, source, out, result, stream)
                        : encode_large<type.value>(job, source, out, result,
                                                   static_cast<PlaneBounds*>(scratch), stream);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* /*scratch*/, Stream stream) const noexcept override {
    const DivisionJob job(parameters_, what, target, {});
    if (static_cast<std::int64_t>(in.size()) < job.sections.end) return false;
    if (what.layout.planes() == 0) return true;
    const DivisionRead read(job, in, reads);
    return with_element(what.type, [&](auto type) {
      if (job.contiguous) return decode_contiguous<type.value>(job, read, target, stream);
      if (job.layout.inner_stride == 1 && job.pixel_stride > 0 && SideTasks::are_few(job)) {
        return decode_interleaved<type.value>(job, read, target, stream);
      }
      return decode_any<type.value>(job, read, target, stream);
    });
  }

 private:
  std::int32_t tile_of(const DivisionJob& job, ElementType type) const noexcept {
    return planes_per_tile(job, device_, element_size(type), job.run());
  }

  template <ElementType type>
  bool decode_contiguous(const DivisionJob& job, const DivisionRead& read, void* target,
                         Stream stream) const noexcept {
    const std::int64_t unit = planes_per_byte(job.size);
    const DecodeTiles least(job, static_cast<std::int32_t>(unit));
    if (!job.vectors || job.block_count > kMaxTableBlocks || least.shared_bytes > kDecodeShared) {
      return decode_any<type>(job, read, target, stream);
    }
    std::int64_t planes =
        std::max<std::int64_t>(
            1, wanted_tile(job, device_, kDecodeBlocks, 32768) / (unit * job.size)) *
        unit;
    while (planes > unit &&
           DecodeTiles(job, static_cast<std::int32_t>(planes)).shared_bytes > kDecodeShared) {
      planes -= unit;
    }
    const DecodeTiles tiles(job, static_cast<std::int32_t>(planes));
    const unsigned blocks = stay_in(stream, tiles.count, kDecodeBlocks, kDecodeThreads);
    return with_run(job, [&](auto run) {
      return launch(division_decode<type, run.value>, blocks, kDecodeThreads, tiles.shared_bytes,
                    stream, job, tiles, read, target);
    });
  }

  template <ElementType type>
  bool decode_interleaved(const DivisionJob& job, const DivisionRead& read, void* target,
                          Stream stream) const noexcept {
    constexpr int kVector = Element<type>::kPerVector;
    const SideTasks tasks(job, job.side_by_side ? kThreadPlanes<kVector> : kThreadPlanes<1>);
    const auto kernel = job.side_by_side ? division_decode_interleaved<type, kVector>
                                         : division_decode_interleaved<type, 1>;
    return launch(kernel,
                  blocks_in(stream, blocks_for(tasks.threads, kDecodeThreads), kDecodeThreads),
                  kDecodeThreads, 0, stream, job, tasks, read, target);
  }

  template <ElementType type>
  bool decode_any(const DivisionJob& job, const DivisionRead& read, void* target,
                  Stream stream) const noexcept {
    const unsigned blocks = blocks_for(job.layout.elements(), kDecodeThreads);
    return launch(division_decode_any<type>, stay_in(stream, blocks, 64, kDecodeThreads),
                  kDecodeThreads, 0, stream, job, read, target);
  }

  /// Blocks for a kernel whose blocks stay until all is done, `each` of a multiprocessor.
  unsigned stay_in(Stream stream, std::int64_t wanted, unsigned each,
                   unsigned threads) const noexcept {
    return blocks_in(stream, std::min<std::int64_t>(wanted, each * device_.processors), threads);
  }

  template <ElementType type>
  bool encode_tiles(const DivisionJob& job, std::int32_t planes, const void* source, std::byte* out,
                    Result* result, Stream stream) const noexcept {
    const DivisionTile tile(job, planes, sizeof(typename Element<type>::Bits), job.run());
    const unsigned blocks = stay_in(stream, tile.count, kDivisionBlocks, kDivisionThreads);
    return with_run(job, [&](auto run) {
      return launch(division_encode<type, run.value>, blocks, kDivisionThreads, tile.shared_bytes,
                    stream, job, tile, source, out, result);
    });
  }

  template <ElementType type>
  static bool encode_large(const DivisionJob& job, const void* source, std::byte* out,
                           Result* result, PlaneBounds* bounds, Stream stream) noexcept {
    const std::int64_t planes = job.layout.planes();
    const unsigned by_plane = blocks_in(stream, blocks_for(planes, kRunThreads), kRunThreads);
    const unsigned by_block =
        blocks_in(stream, blocks_for(planes * job.block_count, kRunThreads / kWarp), kRunThreads);
    const unsigned by_run = run_blocks(stream, job.layout.elements());
    const auto padded =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])));
    return launch(division_large_begin, by_plane, kRunThreads, 0, stream, planes, bounds) &&
           launch(division_large_pool<type>, by_block, kRunThreads, 0, stream, job, padded, source,
                  out) &&
           launch(division_large_bounds<type>, by_run, kRunThreads, 0, stream, job, source, out,
                  bounds, result) &&
           launch(division_large_ranges, by_plane, kRunThreads, 0, stream, job, bounds, out,
                  result) &&
           launch(division_large_codes<type>, by_run, kRunThreads, 0, stream, job, source, out);
  }

  DivisionParameters parameters_;
  DeviceLimits device_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_division_cuda(const CodecSpec& spec) {
  if (spec.residual_group != 0) return make_division_groups_cuda(spec);
  return std::make_shared<DivisionCuda>(
      DivisionParameters{spec.bits, spec.block, spec.edge_ceil, spec.with_sign});
}

}  // namespace cinch::codecs::cuda
