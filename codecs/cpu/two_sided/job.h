// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/workspace.h"
#include "codecs/two_sided.h"

namespace cinch::codecs::cpu {

/// Facts that all tasks of one encode or decode share.
struct TwoSidedJob {
  const Description& what;
  std::int64_t group;
  int bits;  ///< the side's included
  bool subtractive;
  TwoSidedSections sections;
  RandomKey key;  ///< decode: meaningful only if `subtractive`
  /// Elements of a channel; 0 where all elements are treated alike.
  std::int64_t run;

  TwoSidedJob(const Description& description, const TwoSidedParameters& parameters,
              std::int64_t channels, std::int64_t elements_of_channel,
              RandomKey random_key) noexcept
      : what(description),
        group(parameters.group),
        bits(parameters.bits),
        subtractive(parameters.subtractive),
        sections(parameters, description.layout, channels),
        key(random_key),
        run(elements_of_channel) {}

  std::int64_t codes_at(std::int64_t plane) const noexcept {
    return sections.codes + plane * group_quant_code_bytes(what.layout.plane_size(), bits);
  }
  std::int64_t ranges_at(std::int64_t group_of_all) const noexcept {
    return sections.ranges + group_of_all * static_cast<std::int64_t>(sizeof(TwoSidedRanges));
  }

  /// Whether channels are so small that vectors hold elements of several.
  bool has_short_runs() const noexcept { return run > 0 && run < kShortRun; }

  static constexpr std::int64_t kShortRun = 16;
};

/// A task's room for the numbers of each element of a stretch.
class ChannelRoom {
 public:
  ChannelRoom(const TwoSidedJob& job, Workspace& work) noexcept : wanted_(job.has_short_runs()) {
    if (!wanted_) return;
    numbers_ = work.columns.get<float>(kRows * kPitch);
    floats_ = work.plane.get<float>(kPitch);
  }

  /// False when memory ran out.
  bool good() const noexcept { return !wanted_ || (numbers_ != nullptr && floats_ != nullptr); }

  /// kStretchElements numbers, and a vector behind them.
  float* numbers(int row) const noexcept { return numbers_ + row * kPitch; }
  float* floats() const noexcept { return floats_; }

  static constexpr std::int64_t kSlack = 256;  ///< readable elements behind a stretch

 private:
  static constexpr int kRows = 4;
  static constexpr std::int64_t kPitch = kStretchElements + kSlack;

  bool wanted_;
  float* numbers_ = nullptr;
  float* floats_ = nullptr;
};

/// Calls f(channel, begin, end) for the channels of a plane's elements [begin, end), in order.
template <typename F>
void for_each_channel(std::int64_t run, std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t c = begin / run; begin < end; ++c) {
    const std::int64_t stop = (c + 1) * run < end ? (c + 1) * run : end;
    f(c, begin, stop);
    begin = stop;
  }
}

}  // namespace cinch::codecs::cpu
