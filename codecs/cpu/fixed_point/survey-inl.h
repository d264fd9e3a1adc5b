// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_FIXED_POINT_SURVEY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_FIXED_POINT_SURVEY_INL_H_
#undef CINCH_CODECS_CPU_FIXED_POINT_SURVEY_INL_H_
#else
#define CINCH_CODECS_CPU_FIXED_POINT_SURVEY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "codecs/cpu/fixed_point/job.h"
#include "codecs/cpu/fixed_point/tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Survey of a part of one channel.
struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  std::int32_t largest = 0;
  std::int32_t nonzero = 0;

  HWY_INLINE void add(float x) {
    min = std::min(min, x);
    max = std::max(max, x);
    largest = std::max(largest, static_cast<std::int32_t>(float_bits(x) & 0x7FFFFFFFU));
    nonzero += x != 0.0F;
  }
  HWY_INLINE void add(const Extremes& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    largest = std::max(largest, other.largest);
    nonzero += other.nonzero;
  }
};

/// Surveys n contiguous elements of `S`.
template <class S>
HWY_NOINLINE Extremes survey_run(const void* HWY_RESTRICT source, std::int64_t n) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  Extremes result;
  auto min = hn::Set(df, result.min);
  auto max = hn::Set(df, result.max);
  auto largest = hn::Zero(di);
  auto zeros = hn::Zero(di);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = load_floats<S>(df, source, i);
    min = hn::Min(min, x);
    max = hn::Max(max, x);
    const auto magnitude = hn::And(hn::BitCast(di, x), magnitude_mask);
    largest = hn::Max(largest, magnitude);
    zeros = hn::Sub(zeros, hn::VecFromMask(di, hn::Eq(magnitude, hn::Zero(di))));
  }
  if (i != 0) {
    result.min = hn::GetLane(hn::MinOfLanes(df, min));
    result.max = hn::GetLane(hn::MaxOfLanes(df, max));
    result.largest = hn::GetLane(hn::MaxOfLanes(di, largest));
    result.nonzero = static_cast<std::int32_t>(i) - hn::GetLane(hn::SumOfLanes(di, zeros));
  }
  for (; i < n; ++i) result.add(S::value(*element_at<S>(source, i)));
  return result;
}

/// Surveys n elements, `stride` apart.
template <class S>
HWY_NOINLINE Extremes survey_run(const void* HWY_RESTRICT source, std::int64_t stride,
                                 std::int64_t n) {
  if (stride == 1) return survey_run<S>(source, n);
  Extremes result;
  for (std::int64_t i = 0; i < n; ++i) result.add(S::value(*element_at<S>(source, i * stride)));
  return result;
}

/// Surveys a vector of neighbouring channels, the first at `source`: `rows` elements of each,
/// `stride` apart. Merges the result into `to`, from entry `at` on.
template <class S>
HWY_NOINLINE void survey_lanes(const void* HWY_RESTRICT source, std::int64_t stride,
                               std::int64_t rows, const cpu::ChannelSurvey& to, std::int64_t at) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  auto min = hn::LoadU(df, to.min + at);
  auto max = hn::LoadU(df, to.max + at);
  auto largest = hn::LoadU(di, to.largest + at);
  auto nonzero = hn::Add(hn::LoadU(di, to.nonzero + at), hn::Set(di, static_cast<int>(rows)));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto x = load_floats<S>(df, source, r * stride);
    min = hn::Min(min, x);
    max = hn::Max(max, x);
    const auto magnitude = hn::And(hn::BitCast(di, x), magnitude_mask);
    largest = hn::Max(largest, magnitude);
    nonzero = hn::Add(nonzero, hn::VecFromMask(di, hn::Eq(magnitude, hn::Zero(di))));
  }
  hn::StoreU(min, df, to.min + at);
  hn::StoreU(max, df, to.max + at);
  hn::StoreU(largest, di, to.largest + at);
  hn::StoreU(nonzero, di, to.nonzero + at);
}

/// Entry `at` of a survey.
HWY_INLINE Extremes get_extremes(const cpu::ChannelSurvey& survey, std::int64_t at) {
  return {survey.min[at], survey.max[at], survey.largest[at], survey.nonzero[at]};
}
HWY_INLINE void put_extremes(const Extremes& e, const cpu::ChannelSurvey& survey, std::int64_t at) {
  survey.min[at] = e.min;
  survey.max[at] = e.max;
  survey.largest[at] = e.largest;
  survey.nonzero[at] = e.nonzero;
}

/// Surveys the channels of a task of a single chunk, which lie side by side in memory.
template <class S>
void survey_columns(const cpu::FixedPointJob& job, const cpu::FixedPointTask& task,
                    const void* source, const cpu::ChannelSurvey& to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const std::int64_t at =
      task.begin / kFixedPointChunk * job.what.layout.channels() + task.first_channel;
  const std::int64_t stride = job.walk.inner_stride();
  const std::int64_t whole = task.channels / lanes * lanes;
  job.walk.for_each_run(
      task.begin, task.count, [&](std::int64_t, std::int64_t rows, std::int64_t offset) {
        const std::int64_t base = task.first_channel + offset;
        // As many streams as the hardware predicts.
        constexpr std::int64_t kRows = 8;
        for (std::int64_t r = 0; r < rows; r += kRows) {
          const std::int64_t some = std::min(kRows, rows - r);
          for (std::int64_t c = 0; c < whole; c += lanes) {
            survey_lanes<S>(element_at<S>(source, base + c + r * stride), stride, some, to, at + c);
          }
        }
        for (std::int64_t c = whole; c < task.channels; ++c) {
          Extremes e = get_extremes(to, at + c);
          e.add(survey_run<S>(element_at<S>(source, base + c), stride, rows));
          put_extremes(e, to, at + c);
        }
      });
}

template <class S>
void survey_tasks(const cpu::FixedPointJob& job, const void* source, std::int64_t first,
                  std::int64_t last, const cpu::ChannelSurvey& to) {
  const std::int64_t channels = job.what.layout.channels();
  for (std::int64_t t = first; t < last; ++t) {
    const auto task = job.task(job.survey_cut, t);
    for (std::int64_t m = task.begin; m < task.begin + task.count; m += kFixedPointChunk) {
      for (std::int64_t i = 0; i < task.channels; ++i) {
        put_extremes({}, to, m / kFixedPointChunk * channels + task.first_channel + i);
      }
    }
    if (job.way == cpu::FixedPointJob::Way::columns) {
      survey_columns<S>(job, task, source, to);
      continue;
    }
    job.for_each_part(task, [&](std::int64_t c, std::int64_t chunk, std::int64_t,
                                std::int64_t count, std::int64_t offset) {
      const std::int64_t at = chunk * channels + c;
      Extremes e = get_extremes(to, at);
      e.add(survey_run<S>(element_at<S>(source, offset), job.walk.inner_stride(), count));
      put_extremes(e, to, at);
    });
  }
}

/// Surveys tasks [first, last).
void fixed_point_survey(const cpu::FixedPointJob& job, const void* source, std::int64_t first,
                        std::int64_t last, const cpu::ChannelSurvey& to) {
  with_element(job.what.type,
               [&](auto kind) { survey_tasks<decltype(kind)>(job, source, first, last, to); });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
