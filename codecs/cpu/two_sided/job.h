// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/stream.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/two_sided.h"

namespace cinch::codecs::cpu {

/// What encoding needs of a channel. By default, sides are x > 0, and normalizing changes nothing.
struct SideChannel {
  /// The largest x that is on the side of small ones. Sides are monotone in x.
  float threshold = 0.0F;
  bool falls = false;  ///< whether the side of large ones is the lower one
  float center = 0.0F;
  float inverse = 1.0F;
};

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
  const SideChannel* channels = nullptr;  ///< encode only, if run > 0: one each
  bool past_caches;  ///< decode: whether dense planes are written past the caches

  TwoSidedJob(const Description& description, const TwoSidedParameters& parameters,
              std::int64_t channels, std::int64_t elements_of_channel,
              RandomKey random_key) noexcept
      : what(description),
        group(parameters.group),
        bits(parameters.bits),
        subtractive(parameters.subtractive),
        sections(parameters, description.layout, channels),
        key(random_key),
        run(elements_of_channel),
        past_caches(writes_past_caches(description)) {}

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

}  // namespace cinch::codecs::cpu
