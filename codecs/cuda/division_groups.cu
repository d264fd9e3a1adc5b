// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/division_groups.cuh"
#include "codecs/cuda/families.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/division_groups.h"

namespace cinch::codecs::cuda {
namespace {

class DivisionGroupsCuda final : public DeviceCodec {
 public:
  explicit DivisionGroupsCuda(const DivisionGroupsParameters& parameters)
      : parameters_(parameters) {}

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

  DivisionGroupsParameters parameters_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_division_groups_cuda(const CodecSpec& spec) {
  return std::make_shared<DivisionGroupsCuda>(division_groups_of(spec));
}

}  // namespace cinch::codecs::cuda
