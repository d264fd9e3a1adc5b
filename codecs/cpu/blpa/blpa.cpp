// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/blpa/blpa.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/blpa/decode-inl.h"
#include "codecs/cpu/blpa/encode-inl.h"
#include "codecs/cpu/blpa/sums-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>

#include "codecs/cpu/blpa/job.h"
#include "codecs/cpu/blpa/survey.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/blpa.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(blpa_survey);
HWY_EXPORT(blpa_encode);
HWY_EXPORT(blpa_decode);

/// Elements of a task: enough that starting it costs little.
constexpr std::int64_t kTaskElements = 1 << 14;

/// Survey tasks that are worth a thread. A task is a chunk of one channel or of several.
constexpr std::int64_t kSurveyTasks = 4;

/// The sum of the chunks' sums, in the order of BlpaChunks.
double sum_in_lanes(const double* values, std::int64_t count) {
  std::array<double, BlpaChunks::kLanes> lanes = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i % lanes.size()] += values[i];
  for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

class BlpaCpu final : public BlpaCodec {
 public:
  using BlpaCodec::BlpaCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    cpu::Workspace& work = cpu::workspace();
    cpu::BlpaChannels channels;
    if (!channels.prepare(what.layout, work.channels)) return {};
    const bool given = what.channel_center != nullptr && what.channel_scale != nullptr;
    if (given) {
      for (std::int64_t c = 0; c < channels.count(); ++c) {
        channels.grids()[c] =
            blpa_grid(what.channel_center[c], what.channel_scale[c], parameters().bits);
      }
    } else if (!survey(what, source, channels, parallel)) {
      return {};
    }
    Encoded encoded = encode(what, source, out, channels, given, parallel);
    // Only now is it known whether the given grids hold the data.
    if (given && channels.poison_refused()) {
      encoded = encode(what, source, out, channels, false, parallel);
    }
    work.channels.trim();
    return encoded;
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in, reads)) return false;
    cpu::Workspace& work = cpu::workspace();
    cpu::BlpaChannels channels;
    if (!channels.prepare(what.layout, work.channels)) return false;
    std::copy_n(in.data(), channels.count() * sizeof(BlpaGrid),
                reinterpret_cast<std::byte*>(channels.grids()));
    const int bits = parameters().bits;
    channels.tabulate(what.layout.plane_size(), [&](BlpaGrid grid, float& step, float& first) {
      step = float_of_bf16(grid.step);
      first = blpa_middle(0, grid, bits);
    });

    const bool has_signs = needs_signs(what.layout, in.data());
    const cpu::BlpaJob job = {
        what,      parameters(), channels, BlpaSections(parameters(), what.layout, has_signs),
        has_signs, false,        reads};
    const bool dense = has_dense_planes(what.layout);
    const std::int64_t n = dense ? what.layout.elements() : what.layout.planes();
    const std::int64_t grain =
        dense ? kTaskElements : cpu::planes_per_window(what.layout, element_size(what.type));
    const bool good = run(parallel, n, grain, [&](std::int64_t first, std::int64_t last) {
      return HWY_DYNAMIC_DISPATCH(blpa_decode)(job, in.data(), target, first, last);
    });
    work.channels.trim();
    return good;
  }

 private:
  /// Runs f(first, last) over ranges of [0, n). @return false when a call did
  template <typename F>
  static bool run(ParallelFor parallel, std::int64_t n, std::int64_t grain, const F& f) {
    std::atomic<bool> good = true;
    for_range(parallel, n, grain, [&](std::int64_t first, std::int64_t last) {
      if (!f(first, last)) good.store(false);
      cpu::workspace().trim();
    });
    return good.load();
  }

  /// Computes the grids from the data. @return false when memory ran out
  bool survey(const Description& what, const void* source, cpu::BlpaChannels& channels,
              ParallelFor parallel) const {
    cpu::BlpaSurvey survey(what.layout);
    cpu::Buffer& buffer = cpu::workspace().sums_of_chunks;
    survey.sums = buffer.get<double>(2 * survey.numbers());
    if (survey.sums == nullptr) return false;
    survey.squares = survey.sums + survey.numbers();
    const bool good =
        run(parallel, survey.tasks(), kSurveyTasks, [&](std::int64_t first, std::int64_t last) {
          return HWY_DYNAMIC_DISPATCH(blpa_survey)(survey, what.type, source, first, last);
        });
    const std::int64_t chunks = survey.chunks.count;
    for (std::int64_t c = 0; c < channels.count(); ++c) {
      const double sum = sum_in_lanes(survey.sums + c * chunks, chunks);
      const double squares = sum_in_lanes(survey.squares + c * chunks, chunks);
      channels.grids()[c] =
          std::isnan(sum)
              ? poisoned_grid()
              : blpa_grid_of_sums(sum, squares, what.layout.outer * what.layout.plane_size(),
                                  parameters().bits);
    }
    buffer.trim();
    return good;
  }

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 cpu::BlpaChannels& channels, bool refuses, ParallelFor parallel) const {
    const PlaneLayout& layout = what.layout;
    const int bits = parameters().bits;
    std::copy_n(reinterpret_cast<const std::byte*>(channels.grids()),
                channels.count() * sizeof(BlpaGrid), out.data());
    channels.tabulate(layout.plane_size(), [&](BlpaGrid grid, float& inverse, float& offset) {
      const BlpaScale scale = blpa_scale(grid, bits);
      inverse = scale.inverse;
      offset = scale.offset;
    });
    const bool has_signs = needs_signs(layout, out.data());
    const cpu::BlpaJob job = {
        what,      parameters(), channels,     BlpaSections(parameters(), layout, has_signs),
        has_signs, refuses,      Reads::values};

    // Tasks begin where codes begin at a byte. Each window of planes is gathered by only one task.
    const bool dense = has_dense_planes(layout);
    const std::int64_t size = layout.plane_size();
    const std::int64_t unit = planes_per_byte(size);
    const std::int64_t window =
        (cpu::planes_per_window(layout, element_size(what.type)) + unit - 1) / unit * unit;
    std::atomic<bool> negative = false;
    const bool good =
        run(parallel, dense ? layout.elements() : layout.planes(), dense ? kTaskElements : window,
            [&](std::int64_t first, std::int64_t last) {
              bool found = false;
              const std::int64_t elements = dense ? 1 : size;
              if (!HWY_DYNAMIC_DISPATCH(blpa_encode)(job, source, out.data(), first * elements,
                                                     last * elements, &found)) {
                return false;
              }
              if (found) negative.store(true);
              return true;
            });
    if (!good) return {};
    return {!negative.load() && !channels.any_poisoned(),
            static_cast<std::size_t>(job.sections.end)};
  }
};

}  // namespace

std::shared_ptr<const Codec> make_blpa_cpu(const BlpaParameters& parameters) {
  return std::make_shared<BlpaCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
