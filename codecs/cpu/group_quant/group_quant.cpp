// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/group_quant/group_quant.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/group_quant/decode-inl.h"
#include "codecs/cpu/group_quant/decode_features-inl.h"
#include "codecs/cpu/group_quant/encode-inl.h"
#include "codecs/cpu/group_quant/encode_features-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <cstring>
#include <span>

#include "codecs/cpu/group_quant/features.h"
#include "codecs/cpu/group_quant/tasks.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/group_quant.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_groups);
HWY_EXPORT(encode_features);
HWY_EXPORT(decode_groups);
HWY_EXPORT(decode_features);
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
    const bool of_features = has_features(what);
    const bool good = cpu::encode_in_tasks(
        what, job.group, what.layout.planes() * job.sections.groups, parallel, representable,
        [&](std::int64_t first, std::int64_t last, bool* holds) {
          return of_features ? HWY_DYNAMIC_DISPATCH(encode_features)(job, source, out.data(), first,
                                                                     last, holds)
                             : HWY_DYNAMIC_DISPATCH(encode_groups)(job, source, out.data(), first,
                                                                   last, holds);
        });
    sums.trim();
    if (!good) return {};
    return {representable, static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    return with_job(what, in, reads, [&](cpu::GroupQuantJob& job) {
      if (has_features(what)) {
        return decode_features_in_tasks(job, in, target, parallel,
                                        Epilogue([](std::int64_t, std::int64_t) {}));
      }
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
    const bool of_features = has_features(what);
    if (!of_features && !cpu::come_in_pieces(what.layout)) {
      return Codec::decode_with(what, in, target, epilogue, parallel);
    }
    return with_job(what, in, Reads::values, [&](cpu::GroupQuantJob& job) {
      job.past_caches = false;
      if (of_features) return decode_features_in_tasks(job, in, target, parallel, epilogue);
      return cpu::decode_in_pieces(what.layout, job.group, job.sections.groups, epilogue, parallel,
                                   [&](std::int64_t first, std::int64_t last) {
                                     return HWY_DYNAMIC_DISPATCH(decode_groups)(
                                         job, in.data(), target, first, last);
                                   });
    });
  }

 private:
  /// Whether groups are of one feature, which have code of their own.
  bool has_features(const Description& what) const noexcept {
    return !parameters().roots && interleaves_groups(what.layout, parameters().group);
  }

  /// Decodes groups of one feature, some rows at a time, and runs the epilogue after each.
  static bool decode_features_in_tasks(const cpu::GroupQuantJob& job, std::span<const std::byte> in,
                                       void* target, ParallelFor parallel,
                                       const Epilogue& epilogue) {
    const cpu::FeatureRows of(job.what.layout);
    const std::int64_t pieces = of.pieces(), plane = of.rows * of.features;
    const std::int64_t piece = cpu::kDecodedRows * of.features;
    return cpu::run_tasks(parallel, job.what.layout.planes() * pieces,
                          std::max<std::int64_t>(1, cpu::kGroupTaskElements / piece),
                          [&](std::int64_t first, std::int64_t last) {
                            for (std::int64_t p = first; p < last; ++p) {
                              HWY_DYNAMIC_DISPATCH(decode_features)(job, in.data(), target, p);
                              const std::int64_t begin = p / pieces * plane,
                                                 row = p % pieces * piece;
                              epilogue(begin + row, begin + std::min(row + piece, plane));
                            }
                            return true;
                          });
  }

  /// f(job) to decode `in`; false if that can't be done.
  template <typename F>
  bool with_job(const Description& what, std::span<const std::byte> in, Reads reads,
                const F& f) const {
    const auto plane_bits = encoded_plane_bits(what, in, reads);
    if (!plane_bits) return false;
    cpu::Buffer& sums = cpu::workspace().sums_of_planes;
    cpu::GroupQuantJob job(what, parameters(), *plane_bits, encoded_key(in), sums);
    job.signs = reads == Reads::sign;
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
