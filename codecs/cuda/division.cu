// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/division_decode.cuh"
#include "codecs/cuda/division_encode.cuh"
#include "codecs/cuda/division_large.cuh"
#include "codecs/cuda/families.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/division.h"

namespace cinch::codecs::cuda {
namespace {

/// The widest block whose column sums fit into a warp, four a lane.
constexpr std::int64_t kTileMaxBlock = 128;

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
    if (planes_per_tile(job) > 0) return 0;
    return sizeof(PlaneBounds) * static_cast<std::size_t>(what.layout.planes());
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const DivisionJob job(parameters_, what, source, key);
    if (what.layout.planes() == 0) return true;
    const std::int32_t planes = planes_per_tile(job);
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
    return with_element(what.type, [&](auto type) {
      const std::int64_t elements = what.layout.elements();
      if (!job.contiguous) {
        const bool interleaved = job.layout.inner_stride < job.layout.stride[2];
        return launch(division_decode_strided<type.value>,
                      std::min(blocks_for(elements, kDecodeThreads), 64U * device_.processors),
                      kDecodeThreads, 0, stream, job, interleaved, in.data(), reads, target);
      }
      const bool quads = job.quads() && job.size % kStretch == 0;
      return launch(quads ? division_decode<type.value, true> : division_decode<type.value, false>,
                    blocks_for(elements, kDecodeReach), kDecodeThreads, 0, stream, job, in.data(),
                    reads, target);
    });
  }

 private:
  /// Whole planes that a block of threads takes; 0 when not even the smallest tile fits.
  std::int32_t planes_per_tile(const DivisionJob& job) const noexcept {
    const std::int64_t unit = planes_per_byte(job.size);
    if (std::int64_t{job.size} * unit > (std::int64_t{1} << 20) || job.block[2] > kTileMaxBlock) {
      return 0;
    }
    const auto fits = [&](std::int64_t planes) {
      return DivisionTile(job, static_cast<std::int32_t>(planes)).shared_bytes <=
             device_.shared_bytes;
    };
    if (!fits(unit)) return 0;
    // Several tiles for every processor, and enough elements a tile to be worth its barriers.
    const std::int64_t wanted =
        std::clamp<std::int64_t>(job.layout.elements() / (8 * device_.processors), 1024, 8192);
    std::int64_t planes = std::max<std::int64_t>(1, wanted / (unit * job.size)) * unit;
    // Planes may interleave in memory: eight of them read whole sectors of memory.
    if (!job.contiguous) planes = std::max<std::int64_t>(planes, 8);
    while (planes > unit && !fits(planes)) planes -= unit;
    return static_cast<std::int32_t>(planes);
  }

  template <ElementType type>
  bool encode_tiles(const DivisionJob& job, std::int32_t planes, const void* source, std::byte* out,
                    Result* result, Stream stream) const noexcept {
    const DivisionTile tile(job, planes);
    const auto kernel = job.quads() ? division_encode<type, true> : division_encode<type, false>;
    return launch(kernel, blocks_for(job.layout.planes(), planes), kDivisionThreads,
                  tile.shared_bytes, stream, job, tile, source, out, result);
  }

  template <ElementType type>
  static bool encode_large(const DivisionJob& job, const void* source, std::byte* out,
                           Result* result, PlaneBounds* bounds, Stream stream) noexcept {
    const std::int64_t planes = job.layout.planes();
    const unsigned by_plane = blocks_for(planes, kLargeThreads);
    const unsigned by_element = blocks_for(job.layout.elements(), kLargeReach);
    const auto padded =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(job.block[2])));
    return launch(division_large_begin, by_plane, kLargeThreads, 0, stream, planes, bounds) &&
           launch(division_large_pool<type>,
                  blocks_for(planes * job.block_count, kLargeThreads / kWarp), kLargeThreads, 0,
                  stream, job, padded, source, out) &&
           launch(division_large_bounds<type>, by_element, kLargeThreads, 0, stream, job, source,
                  out, bounds, result) &&
           launch(division_large_ranges, by_plane, kLargeThreads, 0, stream, job, bounds, out,
                  result) &&
           launch(division_large_codes<type>, by_element, kLargeThreads, 0, stream, job, source,
                  out);
  }

  DivisionParameters parameters_;
  DeviceLimits device_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_division_cuda(const CodecSpec& spec) {
  return std::make_shared<DivisionCuda>(
      DivisionParameters{spec.bits, spec.block, spec.edge_ceil, spec.with_sign});
}

}  // namespace cinch::codecs::cuda
