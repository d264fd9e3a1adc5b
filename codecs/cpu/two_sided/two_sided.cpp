// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/two_sided/two_sided.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/two_sided/decode-inl.h"
#include "codecs/cpu/two_sided/encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <span>

#include "codecs/cpu/group_quant/tasks.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/two_sided.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(find_channels);
HWY_EXPORT(encode_sides);
HWY_EXPORT(decode_side_groups);
HWY_EXPORT(decode_side_planes);

class TwoSidedCpu final : public TwoSidedCodec {
 public:
  using TwoSidedCodec::TwoSidedCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const Description::Sides& sides = what.sides;
    const bool by_channel = sides.factor != nullptr || sides.center != nullptr;
    cpu::TwoSidedJob job(what, parameters(), TwoSidedHeader::of(what).channels,
                         by_channel ? sides.run : 0, key);
    cpu::Buffer& numbers = cpu::workspace().channels;
    if (by_channel) {
      const std::int64_t channels = what.layout.plane_size() / sides.run;
      auto* const found = numbers.get<cpu::SideChannel>(channels);
      if (found == nullptr) return {};
      for_range(parallel, channels, 4096, [&](std::int64_t first, std::int64_t last) {
        HWY_DYNAMIC_DISPATCH(find_channels)(sides, first, last, found);
      });
      job.channels = found;
    }
    put_head(what, key, out);
    bool representable = true;
    const bool good = cpu::encode_in_tasks(
        what, job.group, what.layout.planes() * job.sections.groups, parallel, representable,
        [&](std::int64_t first, std::int64_t last, bool* holds) {
          return HWY_DYNAMIC_DISPATCH(encode_sides)(job, source, out.data(), first, last, holds);
        });
    numbers.trim();
    if (!good) return {};
    return {representable, static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const auto header = encoded_header(what, in, reads);
    if (!header) return false;
    const cpu::TwoSidedJob job(what, parameters(), header->channels, header->run, encoded_key(in));
    return cpu::decode_in_tasks(
        what, job.group, what.layout.planes() * job.sections.groups, parallel,
        [&](std::int64_t first, std::int64_t last) {
          return HWY_DYNAMIC_DISPATCH(decode_side_groups)(job, in.data(), target, reads, first,
                                                          last);
        },
        [&](const PlaneLayout& layout, std::int64_t first, std::int64_t last) {
          return HWY_DYNAMIC_DISPATCH(decode_side_planes)(job, layout, in.data(), target, reads,
                                                          first, last);
        });
  }

  bool decode_with(const Description& what, std::span<const std::byte> in, void* target,
                   const Epilogue& epilogue, ParallelFor parallel) const override {
    if (!cpu::come_in_pieces(what.layout)) {
      return Codec::decode_with(what, in, target, epilogue, parallel);
    }
    const auto header = encoded_header(what, in, Reads::values);
    if (!header) return false;
    cpu::TwoSidedJob job(what, parameters(), header->channels, header->run, encoded_key(in));
    job.past_caches = false;
    return cpu::decode_in_pieces(what.layout, job.group, job.sections.groups, epilogue, parallel,
                                 [&](std::int64_t first, std::int64_t last) {
                                   return HWY_DYNAMIC_DISPATCH(decode_side_groups)(
                                       job, in.data(), target, Reads::values, first, last);
                                 });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_two_sided_cpu(const TwoSidedParameters& parameters) {
  return std::make_shared<TwoSidedCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
