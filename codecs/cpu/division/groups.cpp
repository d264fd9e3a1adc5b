// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/division/groups.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/division/groups-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/workspace.h"
#include "codecs/formats/division/division_groups.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(division_groups_encode);
HWY_EXPORT(division_groups_decode);

using cpu::DivisionOutcome;

class DivisionGroupsCpu final : public DivisionGroupsCodec {
 public:
  using DivisionGroupsCodec::DivisionGroupsCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const Description residuals = division_residuals(what);
    const cpu::DivisionGroupsJob job(what.type, residuals, parameters(), key);
    const DivisionGeometry& g = job.geometry;
    const std::int64_t means = 2 * g.block_count() * what.layout.planes();
    std::fill_n(out.data() + means, job.sections.residuals - means, std::byte{0});
    if (parameters().residuals.subtractive) {
      std::memcpy(out.data() + job.sections.residuals, &key, sizeof key);
    }
    const auto kernel = HWY_DYNAMIC_DISPATCH(division_groups_encode);
    std::atomic<bool> representable = true;
    std::atomic<bool> enough_memory = true;
    for_range(parallel, what.layout.planes(), 1, [&](std::int64_t first, std::int64_t last) {
      const DivisionOutcome outcome = kernel(job, source, out.data(), first, last);
      if (outcome == DivisionOutcome::not_representable) representable.store(false);
      if (outcome == DivisionOutcome::out_of_memory) enough_memory.store(false);
      cpu::workspace().trim();
    });
    if (!enough_memory.load()) return {};
    return {representable.load(), static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const Description residuals = division_residuals(what);
    const DivisionGroupsSections at(parameters(), what.layout);
    RandomKey key;
    if (parameters().residuals.subtractive) {
      std::memcpy(&key, in.data() + at.residuals, sizeof key);
    }
    const cpu::DivisionGroupsJob job(what.type, residuals, parameters(), key);
    const auto kernel = HWY_DYNAMIC_DISPATCH(division_groups_decode);
    std::atomic<bool> enough_memory = true;
    for_range(parallel, what.layout.planes(), 1, [&](std::int64_t first, std::int64_t last) {
      if (!kernel(job, in.data(), target, first, last)) enough_memory.store(false);
      cpu::workspace().trim();
    });
    return enough_memory.load();
  }
};

}  // namespace

std::shared_ptr<const Codec> make_division_groups_cpu(const DivisionGroupsParameters& parameters) {
  return std::make_shared<DivisionGroupsCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
