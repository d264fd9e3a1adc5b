// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/division/job.h"
#include "codecs/cpu/division/rows-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// Decodes parts of planes.
template <class Elements, bool kWithSign>
class Decoder {
 public:
  using T = typename Elements::Raw;

  /// Logical indices from `end` on will not be decoded.
  Decoder(const cpu::DivisionJob& job, const std::byte* in, std::int64_t end)
      : job_(job),
        g_(job.geometry),
        n_(job.what.layout.plane_size()),
        in_(in),
        codes_(job.parameters.bits, in + job.sections.codes, job.sections.end - job.sections.codes,
               end),
        signs_(1, in + job.sections.signs, job.sections.codes - job.sections.signs, end) {}

  /// @return false when memory ran out
  bool prepare(cpu::Workspace& work) {
    return row_.prepare(g_, work) && runs_.prepare(g_, work.runs) && codes_.prepare(work.codes) &&
           (!kWithSign || signs_.prepare(work.signs));
  }

  /// Writes plane p to `x`. May write anything behind it, up to element `limit`.
  HWY_INLINE void operator()(std::int64_t p, std::int64_t limit, T* HWY_RESTRICT x) {
    AffineRange range;
    std::memcpy(&range, in_ + job_.sections.ranges + p * 4, 4);
    if (range == poisoned_range()) {
      poison(x, n_);
      return;
    }
    const float lo = float_of_bf16(range.lo);
    step_ = float_of_bf16(range.step);
    std::int64_t current = -1;
    for (const Run& run : runs_) {
      if (run.block_row != current) {
        const std::int64_t at = 2 * (p * g_.block_count() + run.block_row * g_.blocks[2]);
        row_.load(in_ + at, (job_.sections.end - at) / 2, lo);
        current = run.block_row;
      }
      decode(run, p * n_ + run.first, limit - run.first, x + run.first);
    }
  }

 private:
  static constexpr hn::ScalableTag<float> df = {};
  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(df)); }

  static void poison(T* x, std::int64_t count) {
    const std::uint32_t bits = bits_of_nan(Elements::kType);
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(x + i, &bits, sizeof(T));
  }

  /// Decodes a run that begins at logical index k to `x`. May write up to `limit` elements.
  HWY_INLINE void decode(const Run& run, std::int64_t k, std::int64_t limit, T* HWY_RESTRICT x) {
    const hn::RebindToSigned<decltype(df)> di;
    const hn::Rebind<std::uint8_t, decltype(df)> d8;
    const std::uint8_t* codes = codes_.at(k, run.count());
    const std::uint8_t* signs = kWithSign ? signs_.at(k, run.count()) : nullptr;
    const std::int64_t columns = row_.columns();
    const float* const bases = row_.of(run);
    const auto step = hn::Set(df, step_);
    const std::int64_t width = run.width;
    const auto value = [&](std::int64_t j) {
      const auto code = hn::PromoteTo(di, hn::LoadU(d8, codes + j));
      const auto v =
          hn::Add(hn::LoadU(df, bases + j * columns), hn::Mul(step, hn::ConvertTo(df, code)));
      if constexpr (kWithSign) {
        const auto sign = hn::PromoteTo(di, hn::LoadU(d8, signs + j));
        return hn::IfThenElseZero(hn::RebindMask(df, hn::Gt(sign, hn::Zero(di))), v);
      } else {
        return v;
      }
    };
    const auto next_row = [&] {
      codes += width;
      if (kWithSign) signs += width;
      x += width;
      limit -= width;
    };

    // Rows whose last vectors may reach past their ends.
    const std::int64_t reached = (width + 2 * lanes() - 1) / (2 * lanes()) * (2 * lanes());
    std::int64_t row = 0;
    for (; row < run.rows && reached <= limit; ++row, next_row()) {
      std::int64_t j = 0;
      for (; j + lanes() < width; j += 2 * lanes()) {
        Elements::store_two(df, value(j), value(j + lanes()), x + j);
      }
      if (j < width) Elements::store(df, value(j), x + j);
    }
    for (; row < run.rows; ++row, next_row()) {
      for (std::int64_t j = 0; j < width; j += lanes()) {
        if (j + lanes() <= limit) {
          Elements::store(df, value(j), x + j);
          continue;
        }
        T rest[HWY_MAX_BYTES / sizeof(float)];
        Elements::store(df, value(j), rest);
        std::memcpy(x + j, rest, (width - j) * sizeof(T));
      }
    }
  }

  const cpu::DivisionJob& job_;
  const DivisionGeometry& g_;
  std::int64_t n_;  ///< elements of a plane
  const std::byte* in_;
  CodeReader codes_;
  CodeReader signs_;
  MeanRow row_;
  Runs runs_;
  float step_ = 0.0F;
};

template <class Elements, bool kWithSign>
bool decode_planes(const cpu::DivisionJob& job, const std::byte* in, typename Elements::Raw* target,
                   std::int64_t first, std::int64_t last) {
  using T = typename Elements::Raw;
  const PlaneLayout& layout = job.what.layout;
  const std::int64_t n = layout.plane_size();
  cpu::Workspace& work = cpu::workspace();
  Decoder<Elements, kWithSign> decoder(job, in, last * n);
  const bool contiguous = layout.is_contiguous();
  const std::int64_t tile = contiguous ? std::max<std::int64_t>(last - first, 1)
                                       : cpu::planes_per_tile(layout, sizeof(T));
  T* const made = contiguous ? nullptr : work.tile.get<T>(tile * n);
  if (!decoder.prepare(work) || (!contiguous && made == nullptr)) return false;
  for (std::int64_t p = first; p < last; p += tile) {
    const std::int64_t count = std::min(tile, last - p);
    T* const x = contiguous ? target + p * n : made;
    for (std::int64_t k = 0; k < count; ++k) decoder(p + k, (tile - k) * n, x + k * n);
    if (!contiguous) cpu::scatter_planes(layout, sizeof(T), made, p, count, target);
  }
  return true;
}

}  // namespace division

/// Decodes the values of planes [first, last). @return false when memory ran out
bool division_decode(const cpu::DivisionJob& job, const std::byte* in, void* target,
                     std::int64_t first, std::int64_t last) {
  return with_element(job.what.type, [&](auto elements) {
    using Elements = decltype(elements);
    auto* const x = static_cast<typename Elements::Raw*>(target);
    return job.parameters.with_sign
               ? division::decode_planes<Elements, true>(job, in, x, first, last)
               : division::decode_planes<Elements, false>(job, in, x, first, last);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
