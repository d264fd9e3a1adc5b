// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_WINDOW_INDEX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_WINDOW_INDEX_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_WINDOW_INDEX_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_WINDOW_INDEX_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/lossless/window_job.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/lossless/window_index.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Coordinates of a vector of indices.
template <class V>
struct VectorCoordinates {
  V d, h, w;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V multiply(D /*d*/, V a, std::uint32_t b) {
  const hn::RepartitionToNarrow<D> narrow;
  return hn::MulEven(hn::BitCast(narrow, a), hn::Set(narrow, b));
}

/// kFlat: the pooling input's planes have a depth of 1.
template <bool kFlat, class D, class V = hn::Vec<D>>
HWY_INLINE VectorCoordinates<V> unravel(D d64, const cpu::WindowJob& job, V index) {
  const auto divide = [&](V v, const cpu::Divisor& by) {
    return hn::ShiftRightSame(multiply(d64, v, by.multiplier), by.shift);
  };
  const V row = divide(index, job.by_width);
  const V column = hn::Sub(index, multiply(d64, row, job.width));
  if constexpr (kFlat) {
    return {hn::Zero(d64), row, column};
  } else {
    const V depth = divide(row, job.by_height);
    return {depth, hn::Sub(row, multiply(d64, depth, job.height)), column};
  }
}

/// Loads a vector of indices, of which only the first `count` matter and `readable` may be read.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_some_indices(D di, const std::int64_t* from, std::int64_t count,
                               std::int64_t readable) {
  if (static_cast<std::int64_t>(hn::Lanes(di)) <= readable) return hn::LoadU(di, from);
  HWY_ALIGN std::int64_t rest[HWY_MAX_BYTES / 8] = {};
  std::copy_n(from, count, rest);
  return hn::Load(di, rest);
}

/// Merges the smallest and largest input coordinates at each output coordinate of one plane into
/// `min` and `max`. @return false when an index is out of range
template <bool kFlat>
HWY_INLINE bool survey_window_plane(const cpu::WindowJob& job, const std::int64_t* plane,
                                    std::int64_t* min, std::int64_t* max) {
  const hn::ScalableTag<std::uint64_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto last = hn::Set(di, job.last);
  const auto& [depth, height, width] = job.output;
  const std::int64_t* const end = plane + depth * height * width;
  std::int64_t* const w_min = min + depth + height;
  std::int64_t* const w_max = max + depth + height;
  bool good = true;
  for (std::int64_t d = 0; d < depth && good; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      auto strange = hn::Zero(di);
      auto d_low = last, h_low = last, d_high = hn::Zero(di), h_high = hn::Zero(di);
      const auto look = [&](std::int64_t w, auto index) {
        strange = hn::Or(strange, hn::Or(index, hn::Sub(last, index)));
        const auto at = unravel<kFlat>(du, job, hn::BitCast(du, index));
        d_low = hn::Min(d_low, hn::BitCast(di, at.d));
        d_high = hn::Max(d_high, hn::BitCast(di, at.d));
        h_low = hn::Min(h_low, hn::BitCast(di, at.h));
        h_high = hn::Max(h_high, hn::BitCast(di, at.h));
        const auto column = hn::BitCast(di, at.w);
        hn::StoreU(hn::Min(hn::LoadU(di, w_min + w), column), di, w_min + w);
        hn::StoreU(hn::Max(hn::LoadU(di, w_max + w), column), di, w_max + w);
      };
      std::int64_t w = 0;
      for (; w + lanes <= width; w += lanes) look(w, hn::LoadU(di, plane + w));
      if (w < width) {
        // Padded with the row's last index; the tables have room for a vector more.
        const auto inside = hn::FirstN(di, static_cast<std::size_t>(width - w));
        const auto some = load_some_indices(di, plane + w, width - w, end - plane - w);
        look(w, hn::IfThenElse(inside, some, hn::Set(di, plane[width - 1])));
      }
      good &= hn::AllFalse(di, hn::Lt(strange, hn::Zero(di)));
      min[d] = std::min(min[d], hn::GetLane(hn::MinOfLanes(di, d_low)));
      max[d] = std::max(max[d], hn::GetLane(hn::MaxOfLanes(di, d_high)));
      min[depth + h] = std::min(min[depth + h], hn::GetLane(hn::MinOfLanes(di, h_low)));
      max[depth + h] = std::max(max[depth + h], hn::GetLane(hn::MaxOfLanes(di, h_high)));
      plane += width;
    }
  }
  return good;
}

bool window_survey(const cpu::WindowJob& job, const std::int64_t* plane, std::int64_t* min,
                   std::int64_t* max) {
  return job.flat ? survey_window_plane<true>(job, plane, min, max)
                  : survey_window_plane<false>(job, plane, min, max);
}

/// Writes the offsets of one plane's indices within their windows, one byte each, and up to a
/// vector beyond. @return false when an index lies outside its window or the plane
template <bool kFlat>
HWY_INLINE bool window_offsets(const cpu::WindowJob& job, const std::int64_t* plane,
                               const std::int64_t* origins, const WindowShape& shape,
                               std::uint8_t* codes) {
  const hn::ScalableTag<std::uint64_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const hn::Rebind<std::uint8_t, decltype(du)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto& [depth, height, width] = job.output;
  const std::int64_t* const end = plane + depth * height * width;
  const auto per_row = static_cast<std::uint32_t>(shape.extent[2]);
  const std::uint32_t per_slice = per_row * static_cast<std::uint32_t>(shape.extent[1]);
  const std::int64_t* const w_origins = origins + depth + height;
  const auto index_last = hn::Set(di, job.last);
  const auto h_last = hn::Set(di, std::int64_t{shape.extent[1]} - 1);
  const auto w_last = hn::Set(di, std::int64_t{shape.extent[2]} - 1);
  // Negative in a lane where anything was outside.
  auto strange = hn::Zero(di);
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      const auto h0 = hn::Set(di, origins[depth + h]);
      const auto store = [&](std::int64_t w, auto index, auto keep) {
        const auto check = [&](auto v, auto last) {
          strange = hn::Or(strange, keep(hn::Or(v, hn::Sub(last, v))));
        };
        const auto at = unravel<kFlat>(du, job, hn::BitCast(du, index));
        const auto in_height = hn::Sub(hn::BitCast(di, at.h), h0);
        const auto in_width = hn::Sub(hn::BitCast(di, at.w), hn::LoadU(di, w_origins + w));
        check(index, index_last);
        check(in_height, h_last);
        check(in_width, w_last);
        auto code =
            hn::Add(multiply(du, hn::BitCast(du, in_height), per_row), hn::BitCast(du, in_width));
        if constexpr (!kFlat) {
          const auto in_depth = hn::Sub(hn::BitCast(di, at.d), hn::Set(di, origins[d]));
          check(in_depth, hn::Set(di, std::int64_t{shape.extent[0]} - 1));
          code = hn::Add(code, multiply(du, hn::BitCast(du, in_depth), per_slice));
        }
        hn::StoreU(hn::TruncateTo(d8, code), d8, codes + w);
      };
      std::int64_t w = 0;
      for (; w + lanes <= width; w += lanes) {
        store(w, hn::LoadU(di, plane + w), [](auto v) { return v; });
      }
      if (w < width) {
        const auto inside = hn::FirstN(di, static_cast<std::size_t>(width - w));
        store(w, load_some_indices(di, plane + w, width - w, end - plane - w),
              [&](auto v) { return hn::IfThenElseZero(inside, v); });
      }
      plane += width;
      codes += width;
    }
  }
  return hn::AllFalse(di, hn::Lt(strange, hn::Zero(di)));
}

/// Packs the codes of planes [first, last). @return false when an index lies outside of its window,
/// or memory ran out. @pre first is a multiple of planes_per_byte; shape.bits > 0
bool window_encode(const cpu::WindowJob& job, const void* source, const std::int64_t* origins,
                   const WindowShape& shape, std::byte* out, std::int64_t first,
                   std::int64_t last) {
  cpu::Workspace& work = cpu::workspace();
  const std::int64_t n = job.layout.plane_size();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  CodeStream stream(shape.bits, out + first * n / 8 * shape.bits);
  const bool good = job.for_each_plane(source, first, last, [&](const std::int64_t* plane) {
    std::uint8_t* const room = stream.room(work.codes, n, slack);
    if (room == nullptr) return false;
    const bool inside = job.flat ? window_offsets<true>(job, plane, origins, shape, room)
                                 : window_offsets<false>(job, plane, origins, shape, room);
    stream.push(n);
    return inside;
  });
  if (good) stream.finish();
  return good;
}

/// The reverse of window_offsets. Loads up to a vector past the codes.
inline HWY_NOINLINE void window_indices(const cpu::WindowJob& job, const std::uint8_t* codes,
                                        const std::int32_t* origins, const WindowShape& shape,
                                        std::int64_t* indices) {
  const hn::ScalableTag<std::int64_t> di;
  const hn::Rebind<std::uint32_t, decltype(di)> d32;
  const hn::Rebind<std::int32_t, decltype(di)> di32;
  const hn::Rebind<std::uint8_t, decltype(di)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  const auto& [depth, height, width] = job.output;
  // A code is (slice * Kh + row) * Kw + column in the window, an index
  // (slice * H + row) * W + column in the plane: they differ by multiples of the numbers of rows
  // and slices. A quotient is (code * (2^16 / divisor, rounded up)) >> 16, exact because codes are
  // below 256.
  const auto inverse = [&](std::int32_t divisor) {
    return hn::Set(d32, (65536U + static_cast<std::uint32_t>(divisor) - 1) /
                            static_cast<std::uint32_t>(divisor));
  };
  const auto by_width = inverse(shape.extent[2]);
  const auto by_height = inverse(shape.extent[1]);
  const auto rest_of_row = hn::Set(d32, job.width - static_cast<std::uint32_t>(shape.extent[2]));
  const auto rest_of_slice =
      hn::Set(d32, (job.height - static_cast<std::uint32_t>(shape.extent[1])) * job.width);
  const auto last = hn::Set(d32, static_cast<std::uint32_t>(job.last));
  const std::int32_t* const w_origins = origins + depth + height;
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      const auto row = hn::Set(d32, (static_cast<std::uint32_t>(origins[d]) * job.height +
                                     static_cast<std::uint32_t>(origins[depth + h])) *
                                        job.width);
      const auto index = [&](std::int64_t w) {
        const auto code = hn::PromoteTo(d32, hn::LoadU(d8, codes + w));
        const auto rows = hn::ShiftRight<16>(hn::Mul(code, by_width));
        auto at = hn::Add(code, hn::Mul(rows, rest_of_row));
        if (!job.flat) {
          const auto slices = hn::ShiftRight<16>(hn::Mul(rows, by_height));
          at = hn::Add(at, hn::Mul(slices, rest_of_slice));
        }
        const auto origin = hn::BitCast(d32, hn::LoadU(di32, w_origins + w));
        // Only damaged bytes give an index past the end; backward must not get one.
        at = hn::Min(hn::Add(hn::Add(at, origin), row), last);
        return hn::PromoteTo(di, hn::BitCast(di32, at));
      };
      // A vector may reach into the next row, which is written after, but not past the plane.
      const std::int64_t room = ((depth - d) * height - h) * width;
      std::int64_t w = 0;
      for (; w < width && w + lanes <= room; w += lanes) hn::StoreU(index(w), di, indices + w);
      if (w < width) {
        HWY_ALIGN std::int64_t rest[HWY_MAX_BYTES / 8];
        hn::Store(index(w), di, rest);
        std::copy_n(rest, width - w, indices + w);
      }
      indices += width;
      codes += width;
    }
  }
}

/// Decodes the codes of one plane to indices. @return false when memory ran out
bool window_decode(const cpu::WindowJob& job, const std::byte* in, std::int64_t size,
                   const std::int32_t* origins, const WindowShape& shape, std::int64_t plane,
                   std::int64_t* indices) {
  const std::int64_t n = job.layout.plane_size();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  auto* const buffer = cpu::workspace().codes.get<std::uint8_t>(n + 8 + 2 * slack);
  if (buffer == nullptr) return false;
  const std::uint8_t* codes = buffer;
  if (shape.bits == 0) {
    std::fill_n(buffer, n, std::uint8_t{0});
  } else {
    codes = unpack_codes(shape.bits, in, size, plane * n, n, buffer);
  }
  window_indices(job, codes, origins, shape, indices);
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
