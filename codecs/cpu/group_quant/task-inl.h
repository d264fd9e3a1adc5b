// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_TASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_TASK_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_TASK_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_TASK_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A task's random keys, and its buffers for a stretch.
class GroupTask {
 public:
  /// @param draws Whether `draw` will be called
  GroupTask(RandomKey key, bool draws, cpu::Workspace& work)
      : philox_(key), codes_(work.codes.get<std::uint8_t>(cpu::kCodesRoom)), wants_draws_(draws) {
    // Whole blocks before and behind, and a vector of blocks.
    const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
    if (draws) {
      draws_ =
          work.draws.get<std::uint16_t>(cpu::kStretchElements + 2 * philox::kDrawsPerBlock * slack);
    }
  }

  /// False when memory ran out.
  bool good() const { return codes_ != nullptr && (draws_ != nullptr || !wants_draws_); }

  std::uint8_t* codes() const { return codes_; }

  /// The draws of `count` elements from logical index `first` on, at most a stretch of them, with
  /// a readable vector behind them. Valid until the next call.
  const std::uint16_t* draw(std::int64_t first, std::int64_t count) const {
    const std::int64_t skipped = first % philox::kDrawsPerBlock;
    fill_draws(philox_, static_cast<std::uint64_t>(first / philox::kDrawsPerBlock),
               (skipped + count + philox::kDrawsPerBlock - 1) / philox::kDrawsPerBlock, draws_);
    return draws_ + skipped;
  }

 private:
  PhiloxLanes philox_;
  std::uint8_t* codes_;
  std::uint16_t* draws_ = nullptr;
  bool wants_draws_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
