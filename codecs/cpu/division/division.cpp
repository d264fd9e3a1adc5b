// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/division/division.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/division/decode-inl.h"
#include "codecs/cpu/division/encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <atomic>
#include <span>

#include "codecs/cpu/masks/sign.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/division/division.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(division_encode);
HWY_EXPORT(division_decode);

using cpu::DivisionOutcome;

class DivisionCpu final : public DivisionCodec {
 public:
  using DivisionCodec::DivisionCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const cpu::DivisionJob job(what, parameters(), key);
    const auto kernel = HWY_DYNAMIC_DISPATCH(division_encode);
    std::atomic<bool> representable = true;
    std::atomic<bool> enough_memory = true;
    for_planes(what, parallel, [&](std::int64_t first, std::int64_t last) {
      const DivisionOutcome outcome = kernel(job, source, out.data(), first, last);
      if (outcome == DivisionOutcome::not_representable) representable.store(false);
      if (outcome == DivisionOutcome::out_of_memory) enough_memory.store(false);
    });
    if (!enough_memory.load()) return {};
    return {representable.load(), static_cast<std::size_t>(job.sections.end)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const cpu::DivisionJob job(what, parameters(), {});
    if (reads == Reads::sign) {
      return cpu::decode_sign_bits(what, in.data() + job.sections.signs, target, parallel);
    }
    const auto kernel = HWY_DYNAMIC_DISPATCH(division_decode);
    std::atomic<bool> enough_memory = true;
    for_planes(what, parallel, [&](std::int64_t first, std::int64_t last) {
      if (!kernel(job, in.data(), target, first, last)) enough_memory.store(false);
    });
    return enough_memory.load();
  }

 private:
  /// Calls `f(first, last)` for ranges of planes whose codes share no byte with other ranges.
  template <typename F>
  static void for_planes(const Description& what, ParallelFor parallel, const F& f) {
    const std::int64_t grain = planes_per_byte(what.layout.plane_size());
    for_range(parallel, what.layout.planes(), grain, [&](std::int64_t first, std::int64_t last) {
      f(first, last);
      cpu::workspace().trim();
    });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_division_cpu(const DivisionParameters& parameters) {
  return std::make_shared<DivisionCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
