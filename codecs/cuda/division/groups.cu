// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/division/group_tiles.cuh"
#include "codecs/cuda/division/groups.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/division/division_groups.h"

namespace cinch::codecs::cuda {
namespace {

template <ElementType type, int kRun>
auto decode_kernel(bool subtractive) noexcept {
  return subtractive ? division_group_decode_tiles<type, kRun, true>
                     : division_group_decode_tiles<type, kRun, false>;
}

class DivisionGroupsCuda final : public DeviceCodec {
 public:
  explicit DivisionGroupsCuda(const DivisionGroupsParameters& parameters)
      : parameters_(parameters), device_(device_limits()) {}

  bool accepts(const Description& what) const noexcept override {
    // As of group_quant, and as of division.
    return is_quantizable(what.type) && is_valid(what.layout) &&
           LogicalOrder::accepts(what.layout) && what.layout.plane_size() <= kMaxPlane &&
           parameters_.residuals.group <= kMaxExtent / 2 &&
           what.layout.elements() / kStretch + what.layout.planes() <= kMaxBlocks;
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* /*scratch*/, RandomKey key, Stream stream) const noexcept override {
    if (what.layout.planes() == 0) return true;
    const MeansJob means = means_job(what, source);
    const GroupJob groups(parameters_.residuals, division_residuals(what), source, key);
    const std::int32_t planes = tile_of(groups, means, what.type);
    if (planes > 0) {
      const DivisionTile tile(means.division, planes, element_size(what.type), means.run);
      return with_element(what.type, [&](auto type) {
        return launch(means.run == kStretch ? division_group_encode_tiles<type.value, kStretch>
                                            : division_group_encode_tiles<type.value, 2>,
                      tile_blocks(tile, stream), kGroupThreads, tile.shared_bytes, stream, groups,
                      means, tile, source, out, result);
      });
    }
    const std::int64_t warps = ((means.count << means.lane_shift) + kWarp - 1) / kWarp;
    return with_element(what.type, [&](auto type) {
      return launch(division_group_means<type.value>,
                    blocks_in(stream, blocks_for(warps, kGroupThreads / kWarp), kGroupThreads),
                    kGroupThreads, 0, stream, means, source, out) &&
             launch(
                 division_group_encode<type.value>,
                 blocks_in(stream, blocks_for(groups.planes * groups.groups, kGroupThreads / kWarp),
                           kGroupThreads),
                 kGroupThreads, 0, stream, groups, means, source, out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const DivisionGroupsSections at(parameters_, what.layout);
    if (static_cast<std::int64_t>(in.size()) < at.end) return false;
    if (what.layout.planes() == 0) return true;
    const MeansJob means = means_job(what, target);
    const GroupJob groups(parameters_.residuals, division_residuals(what), target, {});
    const std::int32_t planes = tile_of(groups, means, what.type);
    if (planes > 0) {
      const DivisionTile tile(means.division, planes, element_size(what.type), means.run);
      if (means.division.vectors || tile.has_vectors(means.division)) {
        return with_element(what.type, [&](auto type) {
          const auto kernel = means.run == kStretch
                                  ? decode_kernel<type.value, kStretch>(groups.subtractive)
                                  : decode_kernel<type.value, 2>(groups.subtractive);
          return launch(kernel, tile_blocks(tile, stream), kGroupThreads, tile.shared_bytes, stream,
                        groups, means, tile, in.data(), target);
        });
      }
    }
    return with_element(what.type, [&](auto type) {
      return launch(groups.subtractive ? division_group_decode<type.value, true>
                                       : division_group_decode<type.value, false>,
                    blocks_in(stream, blocks_for(groups.all_slots, kGroupThreads), kGroupThreads),
                    kGroupThreads, 0, stream, groups, means, in.data(), target);
    });
  }

 private:
  MeansJob means_job(const Description& what, const void* elements) const noexcept {
    return {DivisionJob(parameters_.means, what, elements, {}),
            DivisionGroupsSections(parameters_, what.layout).residuals};
  }

  /// Planes of a tile; 0 where there can be none.
  std::int32_t tile_of(const GroupJob& groups, const MeansJob& means,
                       ElementType type) const noexcept {
    if (!has_group_tiles(groups, means)) return 0;
    return planes_per_tile(means.division, device_, element_size(type), means.run);
  }

  unsigned tile_blocks(const DivisionTile& tile, Stream stream) const noexcept {
    const std::int64_t most = std::int64_t{kDivisionBlocks} * device_.processors;
    return blocks_in(stream, std::min<std::int64_t>(tile.count, most), kGroupThreads);
  }

  DivisionGroupsParameters parameters_;
  DeviceLimits device_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_division_groups_cuda(const CodecSpec& spec) {
  return std::make_shared<DivisionGroupsCuda>(division_groups_of(spec));
}

}  // namespace cinch::codecs::cuda
