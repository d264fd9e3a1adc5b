// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/division.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/division_decode-inl.h"
#include "codecs/cpu/division_encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <atomic>
#include <span>

#include "codecs/cpu/workspace.h"
#include "codecs/division.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(division_encode);
HWY_EXPORT(division_decode);

class DivisionCpu final : public DivisionCodec {
 public:
  using DivisionCodec::DivisionCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const cpu::DivisionJob job(what, parameters(), key, Reads::values);
    const bool good = run(what, parallel, [&](std::int64_t first, std::int64_t last) {
      return HWY_DYNAMIC_DISPATCH(division_encode)(job, source, out.data(), first, last);
    });
    return {good, good ? static_cast<std::size_t>(job.sections.end) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const cpu::DivisionJob job(what, parameters(), {}, reads);
    return run(what, parallel, [&](std::int64_t first, std::int64_t last) {
      return HWY_DYNAMIC_DISPATCH(division_decode)(job, in.data(), target, first, last);
    });
  }

 private:
  template <typename F>
  static bool run(const Description& what, ParallelFor parallel, const F& planes) {
    const std::int64_t grain = planes_per_byte(what.layout.plane_size());
    std::atomic<bool> good = true;
    for_range(parallel, what.layout.planes(), grain, [&](std::int64_t first, std::int64_t last) {
      if (good.load(std::memory_order_relaxed) && !planes(first, last)) good.store(false);
      cpu::workspace().trim();
    });
    return good.load();
  }
};

}  // namespace

std::shared_ptr<const Codec> make_division_cpu(const DivisionParameters& parameters) {
  return std::make_shared<DivisionCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
