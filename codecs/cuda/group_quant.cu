// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/families.h"
#include "codecs/cuda/group_quant_decode.cuh"
#include "codecs/cuda/group_quant_encode.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/group_quant.h"

namespace cinch::codecs::cuda {
namespace {

class GroupQuantCuda final : public DeviceCodec {
 public:
  explicit GroupQuantCuda(const GroupQuantParameters& parameters)
      : parameters_(parameters), host_(make_group_quant_reference(parameters)) {}

  bool accepts(const Description& what) const noexcept override {
    // A block's slots may reach over several planes, and 32 bits count them and their elements.
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.plane_size() <= kMaxExtent / 2 && parameters_.group <= kMaxExtent / 2 &&
           what.layout.elements() / kStretch + what.layout.planes() <= kMaxBlocks * kWarp;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return what.plane_bits.empty() ? 0 : sizeof(std::int64_t) * what.plane_bits.size();
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const GroupJob job(parameters_, what, source, key);
    if (job.planes == 0) return true;
    auto* const offsets = static_cast<std::int64_t*>(scratch);
    if (job.mixed && !(store_bits(what.plane_bits, job.ranges_at - job.plane_bits_at,
                                  out + job.plane_bits_at, stream) &&
                       launch(group_offsets, 1, kGroupThreads, 0, stream, job, out, offsets))) {
      return false;
    }
    return with_any_element(what.type, [&](auto type) {
      if (job.fits_warp()) {
        return launch(group_quant_encode<type.value>,
                      blocks_for(job.planes * job.slots, kGroupThreads), kGroupThreads, 0, stream,
                      job, offsets, source, out, result);
      }
      return launch(group_quant_encode_any<type.value>,
                    blocks_for(job.planes * job.groups, kGroupThreads / kWarp), kGroupThreads, 0,
                    stream, job, offsets, source, out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* scratch, Stream stream) const noexcept override {
    GroupJob job(parameters_, what, target, {});
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < (job.mixed ? job.codes_at : job.end)) return false;
    if (job.planes == 0) return true;
    job.end = size;
    auto* const offsets = static_cast<std::int64_t*>(scratch);
    if (job.mixed && !launch(group_offsets, 1, kGroupThreads, 0, stream, job, in.data(), offsets)) {
      return false;
    }
    return with_any_element(what.type, [&](auto type) {
      return launch(job.subtractive ? group_quant_decode<type.value, true>
                                    : group_quant_decode<type.value, false>,
                    blocks_for(job.planes * job.slots, kGroupThreads * kGroupDecodeEach),
                    kGroupThreads, 0, stream, job, offsets, in.data(), target);
    });
  }

 private:
  /// Writes the section of plane bits, `bytes` with its padding. The bits go as kernel arguments.
  static bool store_bits(std::span<const std::uint8_t> plane_bits, std::int64_t bytes,
                         std::byte* out, Stream stream) noexcept {
    for (std::int64_t at = 0; at < bytes; at += PlaneBits::kCount) {
      PlaneBits some = {};
      const std::int64_t count = std::min<std::int64_t>(PlaneBits::kCount, bytes - at);
      const auto known = static_cast<std::int64_t>(plane_bits.size()) - at;
      std::copy_n(plane_bits.begin() + std::min<std::int64_t>(at, plane_bits.size()),
                  std::clamp<std::int64_t>(known, 0, count), some.bits);
      if (!launch(group_store_bits, 1, kGroupThreads, 0, stream, some, static_cast<int>(count),
                  out + at)) {
        return false;
      }
    }
    return true;
  }

  GroupQuantParameters parameters_;
  std::shared_ptr<const Codec> host_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_group_quant_cuda(const CodecSpec& spec) {
  return std::make_shared<GroupQuantCuda>(GroupQuantParameters{
      .bits = spec.bits, .group = spec.group, .subtractive = spec.subtractive_dither});
}

}  // namespace cinch::codecs::cuda
