// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_GROUPS_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_GROUPS_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_GROUPS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/division/batches-inl.h"
#include "codecs/cpu/division/groups_job.h"
#include "codecs/cpu/division/rows-inl.h"
#include "codecs/cpu/division/survey-inl.h"
#include "codecs/cpu/group_quant/elements-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// A plane's means and residuals, as floats that have a vector of slack behind them.
class Residuals {
 public:
  explicit Residuals(const cpu::DivisionGroupsJob& job) : job_(job), g_(job.geometry) {}

  /// @return false when memory ran out
  bool prepare(cpu::Workspace& work) {
    r_ = work.residual.get<float>(job_.plane_size() + lanes());
    return r_ != nullptr && row_.prepare(g_, work) && runs_.prepare(g_, work.runs);
  }

  float* floats() const { return r_; }

  /// Computes the residuals of plane p, which lies at `x`, with a readable vector behind it.
  template <class Elements>
  HWY_INLINE void subtract(const std::byte* encoded, std::int64_t p,
                           const typename Elements::Raw* HWY_RESTRICT x) {
    for_each_row(
        encoded, p, [&](std::int64_t first, std::int64_t width, const float* means) HWY_ATTR {
          for (std::int64_t j = 0; j < width; j += lanes()) {
            const auto mean = hn::LoadU(df, means + j * row_.columns());
            hn::StoreU(hn::Sub(Elements::load(df, x + first + j), mean), df, r_ + first + j);
          }
        });
  }

  /// Adds the means to the residuals of plane p, which leaves what is decoded.
  HWY_INLINE void add(const std::byte* encoded, std::int64_t p) {
    for_each_row(
        encoded, p, [&](std::int64_t first, std::int64_t width, const float* means) HWY_ATTR {
          float* const r = r_ + first;
          const auto sum = [&](std::int64_t j) HWY_ATTR {
            return hn::Add(hn::LoadU(df, means + j * row_.columns()), hn::LoadU(df, r + j));
          };
          std::int64_t j = 0;
          for (; j + lanes() <= width; j += lanes()) hn::StoreU(sum(j), df, r + j);
          if (j == width) return;
          const auto rest = hn::FirstN(df, static_cast<std::size_t>(width - j));
          hn::BlendedStore(sum(j), rest, df, r + j);
        });
  }

 private:
  static constexpr hn::ScalableTag<float> df = {};
  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(df)); }

  /// Calls f(first element, elements, their means) for rows that cover plane p in logical order.
  template <class F>
  HWY_INLINE void for_each_row(const std::byte* encoded, std::int64_t p, const F& f) {
    std::int64_t current = -1;
    for (const Run& run : runs_) {
      if (run.block_row != current) {
        const std::int64_t block = run.block_row * g_.blocks[2];
        const std::int64_t blocks = g_.block_count();
        // The next plane's means may be another task's.
        row_.load(encoded + 2 * (p * blocks + block), blocks - block, 0.0F);
        current = run.block_row;
      }
      for (std::int64_t row = 0; row < run.rows; ++row) {
        f(run.first + row * run.width, run.width, row_.of(run));
      }
    }
  }

  const cpu::DivisionGroupsJob& job_;
  const DivisionGeometry& g_;
  MeanRow row_;
  Runs runs_;
  float* r_ = nullptr;
};

/// Encodes planes, one at a time.
template <class Elements>
class GroupsEncoder {
 public:
  using T = typename Elements::Raw;

  GroupsEncoder(const cpu::DivisionGroupsJob& job, cpu::Workspace& work, std::byte* out)
      : job_(job),
        work_(work),
        g_(job.geometry),
        out_(out),
        task_(job.groups.key, true, work),
        survey_(g_),
        residuals_(job) {}

  /// @return false when memory ran out
  bool prepare() {
    const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
    spread_ = work_.plane.get<float>(g_.blocks[0] * g_.blocks[1] * Spread::pitch(g_) + slack);
    return task_.good() && spread_ != nullptr && survey_.prepare(work_) &&
           residuals_.prepare(work_);
  }

  /// Encodes plane p at `x`, with a readable vector of bytes behind. @return false if a group is
  /// poisoned
  bool operator()(const T* HWY_RESTRICT x, std::int64_t p) {
    std::byte* const means = out_ + p * 2 * g_.block_count();
    const bool finite = survey_(x, means, spread_).good;
    hold_means(x, finite, means);
    residuals_.subtract<Elements>(out_, p, x);

    const cpu::GroupQuantJob& groups = job_.groups;
    std::byte* const out = out_ + job_.sections.residuals;
    const std::int64_t size = job_.plane_size();
    const std::int64_t batch =
        std::clamp<std::int64_t>(cpu::kStretchElements / groups.group, 1, GroupRanges::kMost) *
        groups.group;
    const int bits = groups.codes.bits(p);
    bool good = true;
    for (std::int64_t begin = 0; begin < size; begin += batch) {
      const std::int64_t group = p * groups.sections.groups + begin / groups.group;
      good &= encode_some_groups<Float32>(groups, residuals_.floats() + begin,
                                          std::min(batch, size - begin), p * size + begin, bits,
                                          task_, out + groups.sections.ranges + group * 4,
                                          out + groups.codes.begin(p) + begin / 8 * bits);
    }
    return good;
  }

 private:
  /// Makes +0 of means that can't be held (held_mean). @param finite whether all elements are, and
  /// their magnitudes are at most kAffineMaxMagnitude
  void hold_means(const T* x, bool finite, std::byte* means) const {
    constexpr std::uint16_t kMost = 0x6780;
    static_assert(kAffineMaxMagnitude == 0x1p80F, "kMost is its pattern");
    for (std::int64_t b = 0; b < g_.block_count(); ++b) {
      std::uint16_t bits;
      std::memcpy(&bits, means + 2 * b, 2);
      if ((bits & 0x7FFFU) > kMost) std::memset(means + 2 * b, 0, 2);
    }
    if (finite) return;
    // Rounding may make a number of a NaN.
    for (std::int64_t i = 0; i < job_.plane_size(); ++i) {
      if (!std::isnan(Elements::value(pattern_of(x[i])))) continue;
      const std::array<std::int64_t, 3> at = {i / g_.extent[2] / g_.extent[1],
                                              i / g_.extent[2] % g_.extent[1], i % g_.extent[2]};
      std::int64_t block = 0;
      bool averaged = true;
      for (int axis = 0; axis < 3; ++axis) {
        const std::int64_t along = at[axis] / g_.block[axis];
        averaged = averaged && along < g_.blocks[axis];
        block = block * g_.blocks[axis] + along;
      }
      if (averaged) std::memset(means + 2 * block, 0, 2);
    }
  }

  static typename Elements::Bits pattern_of(T x) {
    typename Elements::Bits bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }

  const cpu::DivisionGroupsJob& job_;
  cpu::Workspace& work_;
  const DivisionGeometry& g_;
  std::byte* out_;
  GroupTask task_;
  Survey<Elements> survey_;
  Residuals residuals_;
  float* spread_ = nullptr;  ///< the survey's means, which are read anew once they are held
};

/// Decodes plane p to `x`.
template <class Elements>
void decode_plane(const cpu::DivisionGroupsJob& job, const std::byte* in, std::int64_t p,
                  const GroupTask& task, Residuals& residuals, typename Elements::Raw* x) {
  const cpu::GroupQuantJob& groups = job.groups;
  const std::byte* const from = in + job.sections.residuals;
  const std::int64_t size = job.plane_size();
  decode_elements(Float32(), groups, from, p, 0, size, task, false, residuals.floats());
  residuals.add(in, p);
  if constexpr (std::is_same_v<Elements, Float32>) {
    std::memcpy(x, residuals.floats(), size * sizeof(float));
  } else {
    from_floats<Elements>(residuals.floats(), size, x);
  }
  const std::byte* const ranges = from + groups.sections.ranges + p * groups.sections.groups * 4;
  for (std::int64_t g = 0; g < groups.sections.groups; ++g) {
    AffineRange range;
    std::memcpy(&range, ranges + 4 * g, 4);
    if (range != poisoned_range()) continue;
    const std::int64_t begin = g * groups.group;
    std::fill_n(x + begin, std::min(groups.group, size - begin), nan_of(Elements()));
  }
}

template <class Elements>
bool decode_group_planes(const cpu::DivisionGroupsJob& job, const std::byte* in,
                         typename Elements::Raw* target, std::int64_t first, std::int64_t last) {
  using T = typename Elements::Raw;
  const PlaneLayout& layout = job.groups.what.layout;
  const std::int64_t n = layout.plane_size();
  cpu::Workspace& work = cpu::workspace();
  Residuals residuals(job);
  const GroupTask task(job.groups.key, job.groups.subtractive, work);
  const bool contiguous = layout.is_contiguous();
  const std::int64_t tile = contiguous ? std::max<std::int64_t>(last - first, 1)
                                       : cpu::planes_per_tile(layout, sizeof(T));
  T* const made = contiguous ? nullptr : work.tile.get<T>(tile * n);
  if (!task.good() || !residuals.prepare(work) || (!contiguous && made == nullptr)) return false;
  for (std::int64_t p = first; p < last; p += tile) {
    const std::int64_t count = std::min(tile, last - p);
    T* const x = contiguous ? target + p * n : made;
    for (std::int64_t k = 0; k < count; ++k) {
      decode_plane<Elements>(job, in, p + k, task, residuals, x + k * n);
    }
    if (!contiguous) cpu::scatter_planes(layout, sizeof(T), made, p, count, target);
  }
  return true;
}

}  // namespace division

/// Encodes planes [first, last).
cpu::DivisionOutcome division_groups_encode(const cpu::DivisionGroupsJob& job, const void* source,
                                            std::byte* out, std::int64_t first, std::int64_t last) {
  return with_element(job.type, [&](auto elements) {
    using Elements = decltype(elements);
    using T = typename Elements::Raw;
    cpu::Workspace& work = cpu::workspace();
    division::GroupsEncoder<Elements> encoder(job, work, out);
    bool representable = true;
    const bool good =
        encoder.prepare() &&
        division::for_each_batch<Elements>(
            job.groups.what.layout, static_cast<const T*>(source), first, last, 1, work.tile,
            [&](const T* x, std::int64_t /*pitch*/, std::int64_t p, std::int64_t /*count*/) {
              representable &= encoder(x, p);
            });
    if (!good) return cpu::DivisionOutcome::out_of_memory;
    return representable ? cpu::DivisionOutcome::done : cpu::DivisionOutcome::not_representable;
  });
}

/// Decodes planes [first, last). @return false when memory ran out
bool division_groups_decode(const cpu::DivisionGroupsJob& job, const std::byte* in, void* target,
                            std::int64_t first, std::int64_t last) {
  return with_element(job.type, [&](auto elements) {
    using Elements = decltype(elements);
    return division::decode_group_planes<Elements>(
        job, in, static_cast<typename Elements::Raw*>(target), first, last);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
