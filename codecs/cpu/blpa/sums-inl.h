// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_BLPA_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_BLPA_SUMS_INL_H_
#undef CINCH_CODECS_CPU_BLPA_SUMS_INL_H_
#else
#define CINCH_CODECS_CPU_BLPA_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "codecs/cpu/blpa/survey.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/magnitude-inl.h"
#include "codecs/cpu/vectors/prefetch-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/float_formats.h"
#include "codecs/formats/blpa.h"
#include "codecs/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums a chunk in the order of BlpaChunks.
inline HWY_NOINLINE void sum_chunk(const float* HWY_RESTRICT x, std::int64_t count, double* sum,
                                   double* squares) {
  const hn::CappedTag<double, 16> dd;
  const hn::Rebind<float, decltype(dd)> df;
  constexpr std::int64_t kLanes = BlpaChunks::kLanes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(dd));
  const std::int64_t rows = count / kLanes;
  // The padding of the last row adds +0.
  HWY_ALIGN float rest[kLanes] = {};
  std::copy(x + rows * kLanes, x + count, rest);
  HWY_ALIGN double sums[kLanes];
  HWY_ALIGN double powers[kLanes];
  for (std::int64_t l = 0; l < kLanes; l += 4 * lanes) {
    auto s0 = hn::Zero(dd), s1 = s0, s2 = s0, s3 = s0;
    auto q0 = s0, q1 = s0, q2 = s0, q3 = s0;
    const auto add = [&](const float* from, auto& s, auto& q) HWY_ATTR {
      const auto v = hn::PromoteTo(dd, hn::LoadU(df, from));
      s = hn::Add(s, v);
      q = hn::Add(q, hn::Mul(v, v));
    };
    for (std::int64_t row = 0; row <= rows; ++row) {
      const float* const from = (row < rows ? x + row * kLanes : rest) + l;
      add(from, s0, q0);
      add(from + lanes, s1, q1);
      add(from + 2 * lanes, s2, q2);
      add(from + 3 * lanes, s3, q3);
    }
    hn::Store(s0, dd, sums + l);
    hn::Store(s1, dd, sums + l + lanes);
    hn::Store(s2, dd, sums + l + 2 * lanes);
    hn::Store(s3, dd, sums + l + 3 * lanes);
    hn::Store(q0, dd, powers + l);
    hn::Store(q1, dd, powers + l + lanes);
    hn::Store(q2, dd, powers + l + 2 * lanes);
    hn::Store(q3, dd, powers + l + 3 * lanes);
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) {
      sums[l] += sums[l + half];
      powers[l] += powers[l + half];
    }
  }
  *sum = sums[0];
  *squares = powers[0];
}

/// Sums the chunks of a survey's tasks.
template <class S>
class ChunkSummer {
  using Raw = typename S::Raw;
  static constexpr std::int64_t kChannels = cpu::BlpaSurvey::kChannels;

 public:
  ChunkSummer(const cpu::BlpaSurvey& survey, const void* source)
      : survey_(survey), source_(static_cast<const Raw*>(source)) {}

  /// @return false when memory ran out
  bool prepare() {
    cpu::Workspace& work = cpu::workspace();
    floats_ = work.plane.get<float>(BlpaChunks::kElements);
    tile_ = work.tile.get<Raw>(kChannels * kRoom);
    lanes_ = work.sums.get<double>(2 * BlpaChunks::kLanes * kChannels);
    return floats_ != nullptr && tile_ != nullptr && lanes_ != nullptr;
  }

  void run(std::int64_t task) const {
    using Way = cpu::BlpaSurvey::Way;
    const auto [i, block] = survey_.place(task);
    const std::int64_t channel = block * survey_.at_once;
    const std::int64_t count = std::min(survey_.at_once, survey_.layout.inner - channel);
    if (survey_.way == Way::in_place) {
      const Raw* const x = source_ + offset_of(survey_.chunks.begin(i), channel);
      prefetch(x + survey_.chunks.size(i), survey_.chunks.size(i));
      add(channel, i, x);
      return;
    }
    if (survey_.way == Way::interleaved) {
      add_side_by_side(channel, count, i);
      return;
    }
    if (survey_.way == Way::staged) {
      stage(channel, count, i);
    } else {
      for (std::int64_t c = 0; c < count; ++c) gather(channel + c, i, tile_ + c * kRoom);
    }
    for (std::int64_t c = 0; c < count; ++c) add(channel + c, i, tile_ + c * kRoom);
  }

 private:
  /// How many samples, and rows of channels, ahead to prefetch.
  static constexpr std::int64_t kAhead = 2;
  static constexpr std::int64_t kRowsAhead = 16;
  /// Elements of a chunk, and a vector that copies may write past them.
  static constexpr std::int64_t kRoom = BlpaChunks::kElements + HWY_MAX_BYTES;

  /// Memory offset of element m of a channel, if planes are dense.
  std::int64_t offset_of(std::int64_t m, std::int64_t channel) const {
    const PlaneLayout& layout = survey_.layout;
    const std::int64_t size = survey_.chunks.plane_size;
    return m / size * layout.outer_stride + channel * layout.inner_stride + m % size;
  }

  /// Sums chunk i of channel c, whose elements lie at `x`.
  HWY_NOINLINE void add(std::int64_t c, std::int64_t i, const Raw* x) const {
    const std::int64_t count = survey_.chunks.size(i);
    const std::int64_t at = c * survey_.chunks.count + i;
    if (!all_finite(S(), x, count)) {
      survey_.sums[at] = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const float* floats = floats_;
    if constexpr (std::is_same_v<S, Float32>) {
      floats = x;
    } else {
      to_floats<S>(x, count, floats_);
    }
    sum_chunk(floats, count, survey_.sums + at, survey_.squares + at);
  }

  /// Copies whole dense planes of some channels, in the order of memory.
  void stage(std::int64_t channel, std::int64_t count, std::int64_t i) const {
    const hn::ScalableTag<Raw> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int64_t size = survey_.chunks.plane_size;
    const std::int64_t begin = survey_.chunks.begin(i);
    const std::int64_t end = begin + survey_.chunks.size(i);
    const std::int64_t readable = reach(survey_.layout);
    for (std::int64_t m = begin; m < end; m += size) {
      prefetch(source_ + offset_of(m + kAhead * size, channel), count * size);
      for (std::int64_t c = 0; c < count; ++c) {
        const std::int64_t offset = offset_of(m, channel + c);
        const Raw* HWY_RESTRICT from = source_ + offset;
        Raw* HWY_RESTRICT to = tile_ + c * kRoom + (m - begin);
        if (offset + size + lanes > readable) {
          std::memcpy(to, from, size * sizeof(Raw));
        } else {
          for (std::int64_t e = 0; e < size; e += lanes)
            hn::StoreU(hn::LoadU(d, from + e), d, to + e);
        }
      }
    }
  }

  /// Copies a chunk of one channel, wherever its elements lie.
  void gather(std::int64_t channel, std::int64_t i, Raw* HWY_RESTRICT to) const {
    for_each_row(i, [&](std::int64_t offset, std::int64_t count, std::int64_t stride) {
      const Raw* from = source_ + offset + channel * survey_.layout.inner_stride;
      for (std::int64_t e = 0; e < count; ++e) to[e] = from[e * stride];
      to += count;
    });
  }

  /// Calls f(offset, count, stride) for the rows of elements, as long as possible, that make up
  /// chunk i. The offset in memory does not include the channel's.
  template <class F>
  HWY_INLINE void for_each_row(std::int64_t i, const F& f) const {
    const PlaneLayout& layout = survey_.layout;
    const auto& [depth, height, width] = layout.extent;
    const std::int64_t size = survey_.chunks.plane_size;
    if (size == 1) {
      f(survey_.chunks.begin(i) * layout.outer_stride, survey_.chunks.size(i), layout.outer_stride);
      return;
    }
    const bool whole = (height == 1 || layout.stride[1] == width * layout.stride[2]) &&
                       (depth == 1 || layout.stride[0] == height * width * layout.stride[2]);
    const std::int64_t row = whole ? size : width;
    const std::int64_t end = survey_.chunks.begin(i) + survey_.chunks.size(i);
    for (std::int64_t m = survey_.chunks.begin(i); m < end;) {
      const std::int64_t e = m % size;
      const std::int64_t some = std::min(end - m, row - e % row);
      const std::int64_t h = e / row;
      f(m / size * layout.outer_stride + h / height * layout.stride[0] +
            h % height * layout.stride[1] + e % row * layout.stride[2],
        some, layout.stride[2]);
      m += some;
    }
  }

  /// Sums chunk i of `count` channels that lie side by side from `channel` on, all at once, element
  /// by element.
  void add_side_by_side(std::int64_t channel, std::int64_t count, std::int64_t i) const {
    double* HWY_RESTRICT sums = lanes_;
    double* HWY_RESTRICT squares = lanes_ + BlpaChunks::kLanes * kChannels;
    std::fill_n(lanes_, 2 * BlpaChunks::kLanes * kChannels, 0.0);
    HWY_ALIGN float most[kChannels] = {};
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(ChannelTag()));
    for (std::int64_t c = 0; c < count; c += lanes) {
      add_vectors(channel + c, std::min(lanes, count - c), i, sums + c, squares + c, most + c);
    }
    for (std::int64_t half = BlpaChunks::kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l < half * kChannels; ++l) {
        sums[l] += sums[l + half * kChannels];
        squares[l] += squares[l + half * kChannels];
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const std::int64_t at = (channel + c) * survey_.chunks.count + i;
      survey_.sums[at] =
          most[c] <= kAffineMaxMagnitude ? sums[c] : std::numeric_limits<double>::quiet_NaN();
      survey_.squares[at] = squares[c];
    }
  }

  using ChannelTag = hn::CappedTag<float, kChannels>;

  /// Sums a vector of channels, `count` of them in use: adds to sums by lane, kChannels apart, and
  /// stores the largest magnitudes.
  void add_vectors(std::int64_t channel, std::int64_t count, std::int64_t i,
                   double* HWY_RESTRICT sums, double* HWY_RESTRICT squares,
                   float* HWY_RESTRICT largest) const {
    const ChannelTag df;
    const hn::RebindToSigned<ChannelTag> di;
    const hn::RepartitionToWide<ChannelTag> dd;
    const hn::Half<ChannelTag> half;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    auto most = hn::Zero(di);
    std::int64_t lane = 0;
    const auto add = [&](auto v, std::int64_t at) HWY_ATTR {
      hn::Store(hn::Add(hn::Load(dd, sums + at), v), dd, sums + at);
      hn::Store(hn::Add(hn::Load(dd, squares + at), hn::Mul(v, v)), dd, squares + at);
    };
    for_each_row(i, [&](std::int64_t offset, std::int64_t elements, std::int64_t stride) HWY_ATTR {
      const Raw* from = source_ + offset + channel;
      for (std::int64_t e = 0; e < elements; ++e, from += stride) {
        prefetch(from + kRowsAhead * stride, 1);
        HWY_ALIGN Raw rest[kChannels] = {};
        if (count < lanes) std::memcpy(rest, from, count * sizeof(Raw));
        const auto v = S::load(df, count < lanes ? rest : from);
        // As integers, infinities and NaNs are the largest of all.
        most = hn::Max(most, hn::BitCast(di, hn::Abs(v)));
        add(hn::PromoteTo(dd, hn::LowerHalf(half, v)), lane * kChannels);
        add(hn::PromoteTo(dd, hn::UpperHalf(half, v)), lane * kChannels + lanes / 2);
        lane = (lane + 1) % BlpaChunks::kLanes;
      }
    });
    hn::StoreU(hn::BitCast(df, most), df, largest);
  }

  const cpu::BlpaSurvey& survey_;
  const Raw* source_;
  float* floats_ = nullptr;
  Raw* tile_ = nullptr;
  double* lanes_ = nullptr;
};

/// Sums the chunks of tasks [first, last). @return false when memory ran out
bool blpa_survey(const cpu::BlpaSurvey& survey, ElementType type, const void* source,
                 std::int64_t first, std::int64_t last) {
  return with_element(type, [&](auto kind) {
    ChunkSummer<decltype(kind)> summer(survey, source);
    if (!summer.prepare()) return false;
    for (std::int64_t task = first; task < last; ++task) summer.run(task);
    return true;
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
