// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/group_quant/group_quant.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/group_quant/decode-inl.h"
#include "codecs/cpu/group_quant/encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <cstring>
#include <span>

#include "codecs/cpu/group_quant/tasks.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/group_quant.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_groups);
HWY_EXPORT(decode_groups);
HWY_EXPORT(decode_planes);

class GroupQuantCpu final : public GroupQuantCodec {
 public:
  using GroupQuantCodec::GroupQuantCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    cpu::Buffer& sums = cpu::workspace().sums_of_planes;
    const cpu::GroupQuantJob job(what, parameters(), what.plane_bits, key, sums);
    if (!job.codes.good()) return {};
    std::fill_n(out.data(), job.sections.ranges, std::byte{0});
    if (parameters().subtractive) std::memcpy(out.data(), &key, sizeof key);
    std::ranges::copy(std::as_bytes(what.plane_bits), out.begin() + job.sections.plane_bits_at);

    bool representable = true;
    const bool good = cpu::encode_in_tasks(
        what, job.group, what.layout.planes() * job.sections.groups, parallel, representable,
        [&](std::int64_t first, std::int64_t last, bool* holds) {
          return HWY_DYNAMIC_DISPATCH(encode_groups)(job, source, out.data(), first, last, holds);
        });
    sums.trim();
    if (!good) return {};
    return {representable, static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    return with_job(what, in, reads, [&](cpu::GroupQuantJob& job) {
      return cpu::decode_in_tasks(
          what, job.group, what.layout.planes() * job.sections.groups, parallel,
          [&](std::int64_t first, std::int64_t last) {
            return HWY_DYNAMIC_DISPATCH(decode_groups)(job, in.data(), target, first, last);
          },
          [&](const PlaneLayout& layout, std::int64_t first, std::int64_t last) {
            return HWY_DYNAMIC_DISPATCH(decode_planes)(job, layout, in.data(), target, first, last);
          });
    });
  }

  bool decode_with(const Description& what, std::span<const std::byte> in, void* target,
                   const Epilogue& epilogue, ParallelFor parallel) const override {
    if (!cpu::come_in_pieces(what.layout)) {
      return Codec::decode_with(what, in, target, epilogue, parallel);
    }
    return with_job(what, in, Reads::values, [&](cpu::GroupQuantJob& job) {
      job.past_caches = false;
      return cpu::decode_in_pieces(what.layout, job.group, job.sections.groups, epilogue, parallel,
                                   [&](std::int64_t first, std::int64_t last) {
                                     return HWY_DYNAMIC_DISPATCH(decode_groups)(
                                         job, in.data(), target, first, last);
                                   });
    });
  }

 private:
  /// f(job) to decode `in`; false if that can't be done.
  template <typename F>
  bool with_job(const Description& what, std::span<const std::byte> in, Reads reads,
                const F& f) const {
    const auto plane_bits = encoded_plane_bits(what, in, reads);
    if (!plane_bits) return false;
    cpu::Buffer& sums = cpu::workspace().sums_of_planes;
    cpu::GroupQuantJob job(what, parameters(), *plane_bits, encoded_key(in), sums);
    const bool good = job.codes.good() && f(job);
    sums.trim();
    return good;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_group_quant_cpu(const GroupQuantParameters& parameters) {
  return std::make_shared<GroupQuantCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
