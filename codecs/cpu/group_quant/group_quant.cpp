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
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/workspace.h"
#include "codecs/group_quant.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_groups);
HWY_EXPORT(decode_groups);
HWY_EXPORT(decode_planes);

/// Elements of a task: enough that starting it costs little.
constexpr std::int64_t kTaskElements = 1 << 14;

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

    // A window of interleaved planes is gathered once, not by several tasks.
    std::int64_t task = kTaskElements;
    if (!has_dense_planes(what.layout)) task = window_elements(what);
    std::atomic<bool> good = true;
    std::atomic<bool> representable = true;
    for_range(
        parallel, what.layout.planes() * job.sections.groups,
        std::max<std::int64_t>(1, task / job.group), [&](std::int64_t first, std::int64_t last) {
          bool holds = true;
          if (!HWY_DYNAMIC_DISPATCH(encode_groups)(job, source, out.data(), first, last, &holds)) {
            good.store(false);
          }
          if (!holds) representable.store(false);
          cpu::workspace().trim();
        });
    sums.trim();
    if (!good.load()) return {};
    return {representable.load(), static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const auto plane_bits = encoded_plane_bits(what, in, reads);
    if (!plane_bits) return false;
    cpu::Buffer& sums = cpu::workspace().sums_of_planes;
    const cpu::GroupQuantJob job(what, parameters(), *plane_bits, encoded_key(in), sums);
    if (!job.codes.good()) return false;

    std::atomic<bool> good = true;
    const auto run = [&](std::int64_t n, std::int64_t grain, const auto& f) {
      for_range(parallel, n, grain, [&](std::int64_t first, std::int64_t last) {
        if (!f(first, last)) good.store(false);
        cpu::workspace().trim();
      });
    };
    if (has_dense_planes(what.layout)) {
      run(what.layout.planes() * job.sections.groups,
          std::max<std::int64_t>(1, kTaskElements / job.group),
          [&](std::int64_t first, std::int64_t last) {
            return HWY_DYNAMIC_DISPATCH(decode_groups)(job, in.data(), target, first, last);
          });
    } else {
      const PlaneLayout layout = cpu::finer_planes(what.layout);
      run(layout.planes(), cpu::planes_per_window(layout, element_size(what.type)),
          [&](std::int64_t first, std::int64_t last) {
            return HWY_DYNAMIC_DISPATCH(decode_planes)(job, layout, in.data(), target, first, last);
          });
    }
    sums.trim();
    return good.load();
  }

 private:
  static std::int64_t window_elements(const Description& what) {
    const PlaneLayout layout = cpu::finer_planes(what.layout);
    return layout.plane_size() * cpu::planes_per_window(layout, element_size(what.type));
  }
};

}  // namespace

std::shared_ptr<const Codec> make_group_quant_cpu(const GroupQuantParameters& parameters) {
  return std::make_shared<GroupQuantCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
